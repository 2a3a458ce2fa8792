/** Events in words. */

import { api, queryRef } from '../api/client';
import type { DeskEvent } from '../api/types';

const MOST = 300;

/** The last events of a session, or of the namespace, newest first. */
export async function recentEvents(session?: string): Promise<DeskEvent[]> {
  const named = session === undefined ? null : queryRef(session);
  return (await api.get<{ items: DeskEvent[] }>('recent-events', { count: MOST, session: named })).items;
}

export function eventTone(event: DeskEvent): '' | 'amber' | 'green' | 'red' {
  if (event.kind.endsWith('failed') || event.kind.endsWith('deleted') || event.kind === 'messages.cleared') return 'red';
  if (event.kind.startsWith('compaction')) return 'amber';
  return event.kind === 'session.created' ? 'green' : '';
}

export function describeEvent(event: DeskEvent): string {
  const facts = Object.entries(event.data ?? {}).filter(([, value]) => value !== null && typeof value !== 'object');
  const texts = facts.slice(0, 4).map(([name, value]) => `${name} ${String(value)}`);
  return [event.message_id ?? '', ...texts].filter(Boolean).join(', ');
}
