/** A window of rows on a path that may be of any length: at most `MOST` messages are kept, and pages far from the reader are dropped. */

import { api, ApiError, ref } from '../api/client';
import type { Entries, Entry, Missing, Outline, View, ViewItem } from '../api/types';
import { rowsOfEntries, rowsOfView, type Row } from './rows';

const PAGE = 200;
const MOST = 600;
const PREVIEW = 20_000;
/** how the id of a summary begins in the model's view */
export const SUMMARY = 'frontdesk-summary:';

export type Mode = 'written' | 'model';
type Answer = { first: number; total: number; leafId: string | null; items: (Entry | ViewItem)[] };

export class Conversation {
  rows = $state.raw<Row[]>([]);
  /** index of the first loaded message on the path (of the first item, in the model's view), and the number of all */
  first = $state(0);
  total = $state(0);
  leafId = $state<string | null>(null);
  missing = $state.raw<Missing[]>([]);
  error = $state.raw<unknown>(null);
  loaded = $state(false);

  #items: (Entry | ViewItem)[] = [];
  #last: Promise<unknown> = Promise.resolve();
  #opens = 0;
  #extending = false;

  constructor(
    readonly session: string,
    readonly mode: Mode,
    readonly leaf: string | null,
  ) {}

  get end(): number {
    return this.first + this.#items.length;
  }
  get atStart(): boolean {
    return this.first === 0;
  }
  get atEnd(): boolean {
    return this.end >= this.total;
  }

  /** Load the last messages. */
  openEnd(): Promise<void> {
    return this.#nextOpen(() => this.#open({ limit: PAGE }));
  }

  /** Load the messages around a place: an index, or the id of a message. */
  openAt(place: number | string): Promise<void> {
    return this.#nextOpen(() => {
      if (this.mode === 'model') return this.#openItem(place);
      if (typeof place === 'string') return this.#open({ around: place, limit: PAGE });
      return this.#open({ position: Math.max(0, place - PAGE / 2), limit: PAGE });
    });
  }

  /** Load what was written after the last loaded message; how many messages came. */
  grow(): Promise<number> {
    return this.#next(() => this.#grow());
  }

  /** Load the page before or after; whether anything changed. */
  async extend(direction: 'before' | 'after'): Promise<boolean> {
    if (this.#extending) return false;
    this.#extending = true;
    try {
      return await this.#next(() => this.#extend(direction));
    } finally {
      this.#extending = false;
    }
  }

  /** Load the same stretch again, after something in it changed. */
  refresh(): Promise<void> {
    return this.#next(async () => {
      if (this.loaded) this.#take(await this.#fetch({ position: this.first, limit: Math.max(PAGE, this.#items.length) }));
    });
  }

  /** One request after the other: what the next one asks for depends on what this one has brought. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  /** A place that is not wanted any more is not loaded: a reader drags the scrubber past many. */
  #nextOpen(work: () => Promise<void>): Promise<void> {
    const number = ++this.#opens;
    return this.#next(async () => {
      if (number === this.#opens) await work();
    });
  }

  async #grow(): Promise<number> {
    const known = this.total;
    if (!this.loaded) return 0;
    if (!this.atEnd) {
      this.total = (await this.#fetch({ position: -1, limit: 1 })).total;
      return this.total - known;
    }
    const answer = await this.#fetch({ position: this.end, limit: PAGE });
    this.total = answer.total;
    this.leafId = answer.leafId;
    if (answer.first === this.end && answer.items.length) {
      this.#items = [...this.#items, ...answer.items];
      this.#drop('before');
      this.#show();
    }
    return Math.max(0, this.total - known);
  }

  async #extend(direction: 'before' | 'after'): Promise<boolean> {
    if (!this.loaded || (direction === 'before' ? this.atStart : this.atEnd)) return false;
    try {
      const from = direction === 'before' ? Math.max(0, this.first - PAGE) : this.end;
      const limit = direction === 'before' ? this.first - from : PAGE;
      const answer = await this.#fetch({ position: from, limit });
      this.total = answer.total;
      this.#items = direction === 'before' ? [...answer.items, ...this.#items] : [...this.#items, ...answer.items];
      if (direction === 'before') this.first = from;
      this.#drop(direction === 'before' ? 'after' : 'before');
      this.#show();
      return true;
    } catch (error) {
      // Without a connection, what was loaded stays: a banner says why there is no more.
      if (!(error instanceof ApiError && error.status === 0)) this.error = error;
      return false;
    }
  }

  /** Load the items of the model's view around a message, or around the summary that covers it. Items are in the order of the path, so
   * that halving finds the one at a position. */
  async #openItem(place: number | string): Promise<void> {
    try {
      const position = typeof place === 'number' ? place : await this.#positionOf(place);
      let [low, high] = [0, (await this.#fetch({ position: 0, limit: 1 })).total];
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        const item = (await this.#fetch({ position: middle, limit: 1 })).items[0] as ViewItem | undefined;
        if (item && (item.position ?? Infinity) <= position) low = middle;
        else high = middle;
      }
      await this.#open({ position: Math.max(0, low - PAGE / 2), limit: PAGE });
    } catch (error) {
      this.error = error;
      this.loaded = true;
    }
  }

  /** The position of a message on the path; that of a summary is where its range begins. */
  async #positionOf(id: string): Promise<number> {
    if (id.startsWith(SUMMARY)) {
      const outline = await api.get<Outline>(`sessions/${ref(this.session)}/outline`);
      return outline.compactions.find((compaction) => SUMMARY + compaction.id === id)?.first ?? 0;
    }
    const answer = await api.get<Entries>(`sessions/${ref(this.session)}/messages`, { leaf: this.leaf, around: id, limit: 1 });
    return answer.entries[0]?.position ?? 0;
  }

  async #open(query: Record<string, string | number>): Promise<void> {
    try {
      this.#take(await this.#fetch(query));
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.loaded = true;
  }

  #take(answer: Answer): void {
    this.first = answer.first;
    this.total = answer.total;
    this.leafId = answer.leafId;
    this.#items = answer.items;
    this.#show();
  }

  async #fetch(query: Record<string, string | number>): Promise<Answer> {
    const path = `sessions/${ref(this.session)}`;
    const all = { ...query, leaf: this.leaf, max_content: PREVIEW };
    if (this.mode === 'written') {
      const answer = await api.get<Entries>(`${path}/messages`, all);
      return { first: answer.first, total: answer.total, leafId: answer.leaf_id, items: answer.entries };
    }
    const answer = await api.get<View>(`${path}/view`, all);
    this.missing = answer.missing;
    return { first: answer.first, total: answer.total, leafId: answer.leaf_id, items: answer.items };
  }

  #drop(side: 'before' | 'after'): void {
    const surplus = this.#items.length - MOST;
    if (surplus <= 0) return;
    if (side === 'before') {
      this.#items = this.#items.slice(surplus);
      this.first += surplus;
    } else {
      this.#items = this.#items.slice(0, -surplus);
    }
  }

  /** Rows that did not change stay the same objects, so that only new ones are drawn. */
  #show(): void {
    const known = new Map(this.rows.map((row) => [row.id, row]));
    const rows = this.mode === 'written' ? rowsOfEntries(this.#items as Entry[]) : rowsOfView(this.#items as ViewItem[]);
    this.rows = rows.map((row) => {
      const before = known.get(row.id);
      return before && isSame(before, row) ? before : row;
    });
  }
}

function isSame(before: Row, row: Row): boolean {
  if (before.message !== row.message || before.position !== row.position) return false;
  if (before.kind !== 'message' || row.kind !== 'message') return before.kind === row.kind;
  return before.results.size === row.results.size && before.continues === row.continues && before.siblings === row.siblings;
}
