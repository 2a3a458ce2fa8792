/** What a reader may do to a session. What can be undone is done at once and offers the way back. */

import { api, ref } from '../api/client';
import type { Message, SessionInfo } from '../api/types';
import { desk } from './desk.svelte';
import { title } from './sessions';

export async function fork(id: string, at: string | null): Promise<SessionInfo | null> {
  let made: SessionInfo | null = null;
  await desk.attempt(async () => {
    made = await api.post<SessionInfo>(`sessions/${ref(id)}/fork`, at === null ? {} : { at });
    desk.say('Forked. The two sessions share what was said so far.');
  });
  return made;
}

export async function archive(session: SessionInfo, changed: () => void): Promise<void> {
  await desk.attempt(async () => {
    await api.post(`sessions/${ref(session.id)}/archive`);
    changed();
    desk.say(`Archived “${title(session)}”`, { label: 'Back', run: () => void resume(session.id, changed) });
  });
}

export async function resume(id: string, changed: () => void): Promise<void> {
  await desk.attempt(async () => {
    await api.post(`sessions/${ref(id)}/resume`);
    changed();
  });
}

export async function rename(id: string, name: string): Promise<boolean> {
  return desk.attempt(() => api.patch(`sessions/${ref(id)}`, { name }));
}

export async function remove(id: string): Promise<boolean> {
  return desk.attempt(() => api.delete(`sessions/${ref(id)}`));
}

export async function compact(id: string): Promise<void> {
  await desk.attempt(async () => {
    const answer = await api.post<{ result: { messages_covered: number } | null }>(`sessions/${ref(id)}/compact`);
    desk.say(answer.result ? `A summary replaces ${answer.result.messages_covered} messages` : 'There is nothing to compact yet');
  });
}

/** Move the head to a leaf, with the way back to the one before. */
export async function switchHead(id: string, leaf: string, label: string, changed: () => void): Promise<void> {
  await desk.attempt(async () => {
    const path = `sessions/${ref(id)}/head`;
    const before = (await api.get<{ message: Message | null }>(path)).message?.id ?? null;
    await api.put(path, { leaf, expected_head: before });
    changed();
    desk.say(`Switched to “${label}”`, {
      label: 'Back',
      run: () => void desk.attempt(async () => { await api.put(path, { leaf: before, expected_head: leaf }); changed(); }),
    });
  });
}
