/** A session as the page names it: its title, the text of its key, its status in words. */

import type { Key, SessionInfo } from '../api/types';
import { duration } from './text';

export function keyText(key: Key): string {
  return [key.agent, key.channel, key.peer, key.thread].filter((part) => part !== null && part !== undefined).map((part) => part.replaceAll('%', '%25').replaceAll(':', '%3A')).join(':');
}

export function title(session: { name: string; key: Key | null; id: string }): string {
  return session.name || (session.key ? `${session.key.agent} with ${session.key.peer}` : session.id);
}

/** The path of its address parts: key, or id. */
export function keyParts(session: { key: Key | null; id: string }): string[] {
  return session.key ? keyText(session.key).split(':') : [session.id];
}

const statusWords = { active: 'Active', idle: 'Idle', compacting: 'Compacting', suspended: 'Suspended', archived: 'Archived' } as const;
const endWords: Record<string, string> = { new: 'replaced by /new', timeout: 'after its time', compaction: 'split', archive: 'by hand' };

export function statusText(session: SessionInfo): string {
  return statusWords[session.status];
}

export function statusDetail(session: SessionInfo, now: number): string {
  if (session.status === 'compacting' && session.compacting_since) return `for ${since(session.compacting_since, now)}`;
  if (session.turn_since) return `turn held ${since(session.turn_since, now)}`;
  return session.end_reason ? (endWords[session.end_reason] ?? session.end_reason) : '';
}

function since(time: string, now: number): string {
  return duration(Math.max(0, Math.round((now - new Date(time).getTime()) / 1000)));
}
