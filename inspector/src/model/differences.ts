/** Two texts side by side: lines that changed, and the words in them that did. */

import { diffLines, diffWordsWithSpace } from 'diff';

export type Word = { text: string; changed: boolean };
export type Side = { number: number; words: Word[]; kind: 'same' | 'del' | 'add' } | null;
export type Line = { left: Side; right: Side };
export type Comparison = { lines: Line[]; changed: number; removed: number; added: number };

export function compare(before: string, after: string): Comparison {
  const lines: Line[] = [];
  const counts = { changed: 0, removed: 0, added: 0 };
  let [left, right] = [0, 0];
  let removed: string[] = [];
  for (const change of [...diffLines(ended(before), ended(after)), null]) {
    const texts = change ? change.value.replace(/\n$/, '').split('\n') : [];
    if (change?.removed) {
      removed = texts;
      continue;
    }
    const added = change?.added ? texts : [];
    for (const line of pair(removed, added)) {
      if (line.left !== null && line.right !== null) counts.changed += 1;
      else if (line.left !== null) counts.removed += 1;
      else counts.added += 1;
      const [from, to] = line.left !== null && line.right !== null ? words(line.left, line.right) : [whole(line.left), whole(line.right)];
      lines.push({
        left: from && { number: ++left, words: from, kind: 'del' },
        right: to && { number: ++right, words: to, kind: 'add' },
      });
    }
    removed = [];
    if (change && !change.added) {
      for (const text of texts) lines.push({ left: { number: ++left, words: [{ text, changed: false }], kind: 'same' }, right: { number: ++right, words: [{ text, changed: false }], kind: 'same' } });
    }
  }
  return { lines, ...counts };
}

export function summary({ changed, removed, added }: Comparison): string {
  const parts = [
    changed ? `${changed} ${changed === 1 ? 'line' : 'lines'} changed` : '',
    removed ? `${removed} removed` : '',
    added ? `${added} new` : '',
  ];
  return parts.filter(Boolean).join(', ') || 'No difference';
}

/** As `diff` prints it, for the clipboard. */
export function asText({ lines }: Comparison): string {
  const text = (side: NonNullable<Side>) => side.words.map((word) => word.text).join('');
  return lines
    .flatMap(({ left, right }) => {
      if (left?.kind === 'same') return [`  ${text(left)}`];
      return [...(left ? [`- ${text(left)}`] : []), ...(right ? [`+ ${text(right)}`] : [])];
    })
    .join('\n');
}

function ended(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

/** Lines that are alike stand next to each other; the others have a gap on the other side. */
function pair(removed: string[], added: string[]): { left: string | null; right: string | null }[] {
  const rest = [...added];
  const pairs: { left: string | null; right: string | null }[] = [];
  for (const line of removed) {
    const match = rest.findIndex((other) => likeness(line, other) > 0.4);
    if (match < 0) {
      pairs.push({ left: line, right: null });
      continue;
    }
    for (const skipped of rest.splice(0, match)) pairs.push({ left: null, right: skipped });
    pairs.push({ left: line, right: rest.shift() ?? null });
  }
  return [...pairs, ...rest.map((line) => ({ left: null, right: line }))];
}

function likeness(left: string, right: string): number {
  const kept = diffWordsWithSpace(left, right).reduce((sum, run) => (run.added || run.removed ? sum : sum + run.value.trim().length), 0);
  return (2 * kept) / Math.max(1, left.length + right.length);
}

function words(left: string, right: string): [Word[], Word[]] {
  const runs = diffWordsWithSpace(left, right);
  const side = (own: 'removed' | 'added', other: 'removed' | 'added') => runs.filter((run) => !run[other]).map((run) => ({ text: run.value, changed: run[own] === true }));
  return [side('removed', 'added'), side('added', 'removed')];
}

function whole(line: string | null): Word[] | null {
  return line === null ? null : [{ text: line, changed: true }];
}
