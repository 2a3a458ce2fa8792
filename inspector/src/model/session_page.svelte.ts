/** What the screen of one session shows around the conversation, and when it is loaded again. */

import { api, ref } from '../api/client';
import type { Breakdown, Compaction, DeskEvent, Outline, SessionInfo, Timeline, Turn } from '../api/types';

const REFRESH_AFTER = 400;
const TURN_EVERY = 4000;

export class SessionPage {
  info = $state.raw<SessionInfo | null>(null);
  breakdown = $state.raw<Breakdown | null>(null);
  outline = $state.raw<Outline | null>(null);
  timeline = $state.raw<Timeline | null>(null);
  turn = $state.raw<Turn | null>(null);
  compactions = $state.raw<Map<string, Compaction>>(new Map());
  error = $state.raw<unknown>(null);
  deleted = $state(false);

  #refresh = 0;
  #turnTimer = 0;
  #stopped = false;

  constructor(
    readonly id: string,
    readonly leaf: () => string | null,
  ) {}

  get path(): string {
    return `sessions/${ref(this.id)}`;
  }

  async load(): Promise<void> {
    try {
      this.info = await api.get<SessionInfo>(this.path);
      this.error = null;
    } catch (error) {
      this.error = error;
      return;
    }
    await Promise.all([this.#into('breakdown'), this.#into('outline'), this.#into('timeline'), this.#loadCompactions()]);
    void this.#pollTurn();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#refresh);
    clearTimeout(this.#turnTimer);
  }

  /** Load again what an event may have changed; many events in a row are one refresh. */
  see(events: DeskEvent[]): void {
    if (events.some((event) => event.kind === 'session.deleted')) {
      this.deleted = true;
      return;
    }
    clearTimeout(this.#refresh);
    this.#refresh = window.setTimeout(() => void this.load(), REFRESH_AFTER);
  }

  async #into(name: 'breakdown' | 'outline' | 'timeline'): Promise<void> {
    const query = name === 'timeline' ? { leaf: this.leaf(), points: 400 } : {};
    try {
      const answer = await api.get<never>(`${this.path}/${name}`, query);
      this[name] = answer;
    } catch (error) {
      if (name === 'breakdown') this.error = error;
    }
  }

  async #loadCompactions(): Promise<void> {
    const answer = await api.get<{ items: Compaction[] }>(`${this.path}/compactions`);
    this.compactions = new Map(answer.items.map((item) => [item.id, item]));
  }

  /** Renewing a lease is no event, so the holder of the turn is asked for while there is one. */
  async #pollTurn(): Promise<void> {
    clearTimeout(this.#turnTimer);
    try {
      this.turn = await api.get<Turn>(`${this.path}/turn`);
    } catch {
      this.turn = null;
    }
    if (this.turn?.holder && !this.#stopped) this.#turnTimer = window.setTimeout(() => void this.#pollTurn(), TURN_EVERY);
  }
}
