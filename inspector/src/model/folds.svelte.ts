/** Which folds of a session are open. They are remembered while the page is, so that Back restores them. */

import { SvelteMap } from 'svelte/reactivity';

export class Folds {
  all = $state(false);
  #open = new SvelteMap<string, boolean>();

  isOpen(id: string): boolean {
    return this.#open.get(id) ?? (this.all && id.includes(' '));
  }

  set(id: string, open: boolean): void {
    if (this.isOpen(id) !== open) this.#open.set(id, open);
  }

  toggleAll(): void {
    this.all = !this.all;
    this.#open.clear();
  }
}

type Kept = { folds: Folds; places: Map<string, { id: string; offset: number }> };
const kept = new Map<string, Kept>();
const MOST = 50;

/** What is remembered of a session: folds, and the place in each view. */
export function remembered(session: string): Kept {
  let found = kept.get(session);
  if (!found) {
    found = { folds: new Folds(), places: new Map() };
    kept.set(session, found);
    if (kept.size > MOST) kept.delete(kept.keys().next().value as string);
  }
  return found;
}
