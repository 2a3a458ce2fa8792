/** Parses and colours long texts outside the page's thread, so that a message of megabytes never freezes it. */

import { highlight } from './highlight';
import { parseMarkdown } from './markdown';

export type Task = { id: number; kind: 'markdown'; text: string } | { id: number; kind: 'code'; text: string; language: string };

addEventListener('message', (event: MessageEvent<Task>) => {
  const task = event.data;
  if (task.kind === 'markdown') postMessage({ id: task.id, result: parseMarkdown(task.text) });
  else void highlight(task.text, task.language).then((result) => postMessage({ id: task.id, result }));
});
