/** What every screen knows: the server, the role of the key, theme, and the notice at the bottom of the page. */

import { api, ApiError, credentials, refusal } from '../api/client';
import { stream } from '../api/stream.svelte';
import type { Desk } from '../api/types';

type Notice = { text: string; action?: { label: string; run: () => void }; tone: 'plain' | 'red' };

const NOTICE_SECONDS = 8;

class DeskState {
  info = $state.raw<Desk | null>(null);
  error = $state.raw<ApiError | null>(null);
  needsKey = $state(false);
  notice = $state.raw<Notice | null>(null);
  /** the clock of relative times, in milliseconds */
  now = $state(Date.now());
  /** a number that grows when everything that is shown must be loaded again */
  generation = $state(0);
  #timer = 0;

  mayWrite = $derived(this.info !== null && this.info.role !== 'read');
  isAdmin = $derived(this.info?.role === 'admin');
  /** the share of a window at which a compaction starts; none does before the server has answered */
  compactsAt = $derived(this.info?.compacts_at ?? 1);

  constructor() {
    refusal.handler = () => {
      this.needsKey = true;
    };
    setInterval(() => (this.now = Date.now()), 1000);
  }

  async connect(): Promise<void> {
    try {
      this.info = await api.get<Desk>('');
      this.error = null;
      this.needsKey = false;
      this.generation += 1;
      stream.start(this.info.position);
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401) this.error = error;
    }
  }

  useKey(key: string): Promise<void> {
    credentials.key = key.trim();
    return this.connect();
  }

  useNamespace(name: string): Promise<void> {
    credentials.namespace = name;
    return this.connect();
  }

  say(text: string, action?: Notice['action'], tone: Notice['tone'] = 'plain'): void {
    this.notice = action ? { text, action, tone } : { text, tone };
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => (this.notice = null), NOTICE_SECONDS * 1000);
  }

  /** Run an action; if it fails, say why. Whether it succeeded. */
  async attempt(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      return true;
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), undefined, 'red');
      return false;
    }
  }

  async copy(text: string, what: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.say(`${what} copied`);
    } catch {
      this.say(`The browser did not allow copying. Open the page over https or on localhost.`, undefined, 'red');
    }
  }
}

export const desk = new DeskState();
