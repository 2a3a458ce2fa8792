/** The sessions that the list has loaded, page by page. It never sorts itself again: what changed is counted until a click. */

import { api } from '../api/client';
import type { DeskEvent, Page, SessionInfo } from '../api/types';

const PAGE = 100;

export class SessionList {
  items = $state.raw<SessionInfo[]>([]);
  done = $state(false);
  error = $state.raw<unknown>(null);
  loaded = $state(false);
  updated = $state(0);
  scrollTop = 0;
  selected = $state(0);

  #cursor: string | null = null;
  #loading = false;
  #changed = new Set<string>();

  constructor(readonly query: Record<string, string | number | string[]>) {}

  async more(): Promise<void> {
    if (this.#loading || this.done) return;
    this.#loading = true;
    try {
      const page = await api.get<Page<SessionInfo>>('sessions', { ...this.query, limit: PAGE, cursor: this.#cursor });
      const known = new Set(this.items.map((item) => item.id));
      this.items = [...this.items, ...page.items.filter((item) => !known.has(item.id))];
      this.#cursor = page.next_cursor;
      this.done = page.next_cursor === null;
      this.loaded = true;
      this.error = null;
    } catch (error) {
      this.error = error;
    } finally {
      this.#loading = false;
    }
  }

  async reload(): Promise<void> {
    try {
      const size = Math.min(1000, Math.max(PAGE, this.items.length));
      const page = await api.get<Page<SessionInfo>>('sessions', { ...this.query, limit: size });
      const selected = this.items[this.selected]?.id;
      this.items = page.items;
      this.#cursor = page.next_cursor;
      this.done = page.next_cursor === null;
      this.loaded = true;
      this.#changed.clear();
      this.updated = 0;
      this.selected = Math.max(0, page.items.findIndex((item) => item.id === selected));
      this.error = null;
    } catch (error) {
      this.error = error;
    }
  }

  see(events: DeskEvent[]): void {
    for (const event of events) if (event.session_id) this.#changed.add(event.session_id);
    this.updated = this.#changed.size;
  }
}

let last: { address: string; list: SessionList } | null = null;

/** The list for an address: the one that was left, if Back leads to the same filters. */
export function listFor(address: string, query: Record<string, string | number | string[]>): SessionList {
  if (last?.address !== address) last = { address, list: new SessionList(query) };
  return last.list;
}
