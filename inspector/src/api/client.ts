/** Calls of the server. The key is sent in a header only, and kept for this tab only. */

import { mount } from '../routing.svelte';

const KEY = 'frontdesk.key';
const NAMESPACE = 'frontdesk.namespace';

export type Problem = {
  title: string;
  status: number;
  detail: string;
  code?: string;
  details?: Record<string, unknown>;
  /** what became of the call: `refused`, `did not happen`, `unknown` ... */
  outcome?: string;
  request_id?: string;
};

/** An answer that is not the one that was asked for; `status` is 0 if none came. */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
  get status(): number {
    return this.problem.status;
  }
}

type Value = string | number | boolean | null | undefined | string[];
type Options = { query?: Record<string, Value>; body?: unknown; headers?: Record<string, string>; signal?: AbortSignal | null };

export const credentials = {
  get key(): string {
    return sessionStorage.getItem(KEY) ?? '';
  },
  set key(value: string) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
  get namespace(): string {
    return sessionStorage.getItem(NAMESPACE) ?? '';
  },
  set namespace(value: string) {
    sessionStorage.setItem(NAMESPACE, value);
  },
};

/** Who is called when the server wants a key, or another one. */
export const refusal = { handler: (): void => {} };

export function headers(extra: Record<string, string> = {}): Record<string, string> {
  const all = { ...extra };
  if (credentials.key) all.Authorization = `Bearer ${credentials.key}`;
  if (credentials.namespace) all['Frontdesk-Namespace'] = credentials.namespace;
  return all;
}

export function address(path: string, query: Record<string, Value> = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) params.append(name, one);
    else if (value != null && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return `${mount}v1${path && `/${path}`}${text && `?${text}`}`;
}

/** Any id as one part of an address, as the server wants it. */
export function ref(id: string): string {
  return encodeURIComponent(/^([~@]|\.{1,2}$)/.test(id) ? `~${id}` : id);
}

/** A session as the value of a query. */
export function queryRef(id: string): string {
  return /^[~@]/.test(id) ? `~${id}` : id;
}

export function part(id: string): string {
  return encodeURIComponent(/^(~|\.{1,2}$)/.test(id) ? `~${id}` : id);
}

export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const all = headers(options.headers);
  if (options.body !== undefined) all['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(address(path, options.query), {
      method,
      headers: all,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
      credentials: 'omit',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError({
      title: 'No connection',
      status: 0,
      detail: 'The server did not answer. Check that it is running, and try again.',
      outcome: method === 'GET' ? 'did not happen' : 'unknown',
    });
  }
  if (response.ok) return response;
  if (response.status === 401) refusal.handler();
  throw new ApiError(await problem(response));
}

async function problem(response: Response): Promise<Problem> {
  try {
    const found = (await response.json()) as Partial<Problem>;
    return { title: 'Error', detail: response.statusText, ...found, status: response.status };
  } catch {
    return { title: response.statusText, status: response.status, detail: 'The server gave no reason.' };
  }
}

async function json<T>(method: string, path: string, options: Options): Promise<T> {
  return (await (await send(method, path, options)).json()) as T;
}

export const api = {
  get: <T>(path: string, query: Record<string, Value> = {}, signal: AbortSignal | null = null) => json<T>('GET', path, { query, signal }),
  post: <T>(path: string, body: unknown = {}) => json<T>('POST', path, { body }),
  put: <T>(path: string, body: unknown, extra: Record<string, string> = {}) => json<T>('PUT', path, { body, headers: extra }),
  patch: <T>(path: string, body: unknown) => json<T>('PATCH', path, { body }),
  delete: <T>(path: string) => json<T>('DELETE', path, {}),
};
