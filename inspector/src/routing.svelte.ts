/** Addresses: which screen the location names, below any mount prefix, and moving between them without a reload. */

export type Screen =
  | { name: 'sessions' }
  | { name: 'session'; id: string }
  | { name: 'prompt'; id: string; label: string | null }
  | { name: 'search' }
  | { name: 'usage' }
  | { name: 'events' }
  | { name: 'missing' };

/** The path of the mount prefix, with a slash at its end: the program is in `PREFIX/assets/`. */
export const mount = import.meta.env.DEV ? '/' : new URL(/* @vite-ignore */ '..', import.meta.url).pathname;

function parse(path: string): Screen {
  const parts = segments(path.slice(mount.length));
  if (parts === null) return { name: 'missing' };
  const [first, id, third, label] = parts;
  if (first === undefined) return { name: 'sessions' };
  if (first === 's' && id !== undefined && third === undefined) return { name: 'session', id };
  if (first === 's' && id !== undefined && third === 'prompt') return { name: 'prompt', id, label: label ?? null };
  if (parts.length === 1 && (first === 'search' || first === 'usage' || first === 'events')) return { name: first };
  return { name: 'missing' };
}

function segments(path: string): string[] | null {
  try {
    return path.split('/').filter(Boolean).map((part) => decodeURIComponent(part.replace(/^~/, '')));
  } catch {
    return null;
  }
}

/** Any id as one segment of a path. Browsers resolve `.` and `..` even if they are escaped, so these get a mark. */
function segment(id: string): string {
  return (/^(\.{1,2}$|~)/.test(id) ? '~' : '') + encodeURIComponent(id);
}

class Location {
  #path = $state(location.pathname);
  #query = $state(location.search);
  screen = $derived(parse(this.#path));
  params = $derived(new URLSearchParams(this.#query));

  constructor() {
    history.scrollRestoration = 'manual';
    addEventListener('popstate', () => this.#read());
    document.addEventListener('click', (event) => this.#follow(event));
  }

  /** Open an address. `replace` changes the current entry of the browser's history instead of adding one. */
  go(address: string, { replace = false } = {}): void {
    history[replace ? 'replaceState' : 'pushState'](null, '', address);
    this.#read();
  }

  /** Change parameters of the current address; null removes one. */
  set(changes: Record<string, string | null>, { replace = true } = {}): void {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    this.go(location.pathname + (text && `?${text}`), { replace });
  }

  #read(): void {
    this.#path = location.pathname;
    this.#query = location.search;
  }

  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest<HTMLAnchorElement>('a[href]');
    if (!link || link.target || link.hasAttribute('download')) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(mount)) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

export const route = new Location();

export function href(path: string, params: Record<string, string | number | null | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value != null && value !== '') query.set(name, String(value));
  const text = query.toString();
  return mount + path + (text && `?${text}`);
}

export function sessionHref(id: string, params: Record<string, string | number | null | undefined> = {}): string {
  return href(`s/${segment(id)}`, params);
}

export function promptHref(id: string, label: string, params: Record<string, string | number | null | undefined> = {}): string {
  return href(`s/${segment(id)}/prompt/${segment(label)}`, params);
}
