/** The map of a session: the path to the head from top to bottom, with branches, forks and compactions where they begin. */

import type { Outline, OutlineCompaction, Run } from '../api/types';
import { count, counted, day, excerpt } from './text';

export type MapRow = {
  kind: 'start' | 'point' | 'branch' | 'compaction' | 'fork' | 'head';
  text: string;
  detail: string;
  position: number;
  /** where a click leads: a message on the path, the end of a branch, another session */
  target: { position: number } | { leaf: string } | { session: string };
  /** the row of a compaction covers the path down to this row */
  until?: number;
};

const MOST = 300;

export function mapRows(outline: Outline, now: number): MapRow[] {
  const { runs } = outline;
  const start = runs[0];
  if (!start) return [];
  const rows: MapRow[] = [{ kind: 'start', text: 'Start', detail: day(start.created_at, now), position: -1, target: { position: 0 } }];
  for (const item of items(outline, now)) rows.push(item);
  const head = runs.findLast((run) => run.on_path);
  if (head) rows.push({ kind: 'head', text: 'Head', detail: `${day(head.last_at, now)}, you are here`, position: Infinity, target: { position: head.first + head.messages - 1 } });
  return rows.slice(0, MOST);
}

function items(outline: Outline, now: number): MapRow[] {
  const { runs, compactions, forks } = outline;
  const shown: MapRow[] = [];
  runs.forEach((run, index) => {
    if (!run.on_path || index === 0) return;
    const others = runs.flatMap((other, place) => (other.parent === run.parent && !other.on_path ? [{ run: other, place }] : []));
    const versions = others.length + 1;
    shown.push({ kind: 'point', text: quoted(run.text), detail: versions > 2 ? counted(versions, 'version') : day(run.created_at, now), position: run.first, target: { position: run.first } });
    for (const other of others) shown.push(branch(runs, other.run, other.place));
  });
  // Branches of the last run on the path: it has no continuation there, but others may go on from its end.
  const last = runs.findLastIndex((run) => run.on_path);
  runs.forEach((run, place) => {
    if (!run.on_path && (run.parent === last || (run.parent === null && place !== 0))) {
      if (!shown.some((row) => row.kind === 'branch' && row.position === run.first && 'leaf' in row.target && row.target.leaf === newestLeaf(runs, place))) shown.push(branch(runs, run, place));
    }
  });
  const onPath = compactions.filter((compaction) => compaction.applies || compactions.some((other) => other.applies && other.extends.includes(compaction.id)));
  onPath.forEach((compaction, index) => {
    if (onPath.some((other) => other.extends.includes(compaction.id))) return;
    shown.push(compactionRow(compaction, index + 1, onPath));
  });
  for (const fork of forks) {
    shown.push({ kind: 'fork', text: fork.name || 'Fork', detail: 'fork, own session', position: fork.position ?? 0, target: { session: fork.session_id } });
  }
  const order = { start: 0, compaction: 1, point: 2, branch: 3, fork: 4, head: 5 };
  return shown.sort((a, b) => a.position - b.position || order[a.kind] - order[b.kind]);
}

function branch(runs: Run[], run: Run, place: number): MapRow {
  const messages = subtree(runs, place);
  return { kind: 'branch', text: quoted(run.text), detail: `branch, ${counted(messages, 'message')}`, position: run.first, target: { leaf: newestLeaf(runs, place) } };
}

function compactionRow(compaction: OutlineCompaction, number: number, all: OutlineCompaction[]): MapRow {
  const before = compaction.extends.map((id) => all.findIndex((other) => other.id === id) + 1).filter((place) => place > 0);
  const hidden = compaction.kind === 'summary' ? '' : `, ${compaction.kind}`;
  return {
    kind: 'compaction',
    text: `Compaction ${number}${compaction.stale ? ', stale' : ''}`,
    detail: `${count(compaction.messages)} messages${hidden}${before.length ? `, extends ${before.join(', ')}` : ''}`,
    position: compaction.first,
    target: { position: compaction.first },
    until: compaction.last,
  };
}

function quoted(text: string): string {
  return `“${excerpt(text, 40)}”`;
}

function children(runs: Run[], place: number): number[] {
  return runs.flatMap((run, index) => (run.parent === place ? [index] : []));
}

function subtree(runs: Run[], place: number): number {
  return (runs[place]?.messages ?? 0) + children(runs, place).reduce((sum, child) => sum + subtree(runs, child), 0);
}

/** The leaf of a branch that was written last. */
export function newestLeaf(runs: Run[], place: number): string {
  const below = children(runs, place);
  if (!below.length) return runs[place]?.last_id ?? '';
  const newest = below.reduce((best, child) => ((runs[child]?.last_at ?? '') > (runs[best]?.last_at ?? '') ? child : best));
  return newestLeaf(runs, newest);
}
