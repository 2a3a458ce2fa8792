/** The page's end of the worker that parses long texts. It is started by the first of them. */

import type { Root } from 'mdast';
import type { Run } from './highlight';
import type { Task } from './worker';
import address from './worker?worker&url';

type Request = Task extends infer T ? (T extends Task ? Omit<T, 'id'> : never) : never;

let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, (result: unknown) => void>();

export function parseInWorker(text: string): Promise<Root> {
  return ask({ kind: 'markdown', text });
}

export function highlightInWorker(text: string, language: string): Promise<Run[]> {
  return ask({ kind: 'code', text, language });
}

function ask<T>(request: Request): Promise<T> {
  worker ??= start();
  const id = ++last;
  return new Promise((resolve) => {
    waiting.set(id, resolve as (result: unknown) => void);
    worker?.postMessage({ ...request, id });
  });
}

function start(): Worker {
  const made = new Worker(trusted(new URL(address, import.meta.url).href), { type: 'module' });
  made.addEventListener('message', (event: MessageEvent<{ id: number; result: unknown }>) => {
    waiting.get(event.data.id)?.(event.data.result);
    waiting.delete(event.data.id);
  });
  return made;
}

type Policy = { createScriptURL(url: string): string };
type Factory = { createPolicy(name: string, rules: { createScriptURL(url: string): string }): Policy };

/** The policy that Trusted Types ask for before a script is started: only one of our own. */
function trusted(url: string): string {
  const factory = (globalThis as { trustedTypes?: Factory }).trustedTypes;
  if (!factory) return url;
  const policy = factory.createPolicy('frontdesk-worker', {
    createScriptURL(address) {
      if (new URL(address).origin !== location.origin) throw new TypeError('a worker of another origin');
      return address;
    },
  });
  return policy.createScriptURL(url);
}
