/** The stream of events: one connection for the page, read with fetch because the key is a header. After a break it continues
 * from the last event that arrived. Events reach their listeners once per frame. */

import { createParser } from 'eventsource-parser';
import { address, headers, refusal } from './client';
import type { DeskEvent } from './types';

type Listener = (events: DeskEvent[]) => void;

const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 30;

class EventStream {
  state = $state<'off' | 'live' | 'lost'>('off');
  /** when the connection broke, and when the next attempt begins; milliseconds */
  lostAt = $state(0);
  retryAt = $state(0);
  /** how often the connection came back: what could not be loaded meanwhile is loaded again */
  returns = $state(0);

  #position = '';
  #listeners = new Set<Listener>();
  #resets = new Set<() => void>();
  #batch: DeskEvent[] = [];
  #abort: AbortController | null = null;
  #wake: (() => void) | null = null;

  start(position: string): void {
    this.#abort?.abort();
    this.#position = position;
    this.#abort = new AbortController();
    void this.#run(this.#abort.signal);
  }

  stop(): void {
    this.#abort?.abort();
    this.state = 'off';
  }

  retry(): void {
    this.#wake?.();
  }

  /** Listen to events; `reset` is called if some were missed, and everything has to be loaded again. */
  listen(listener: Listener, reset: () => void): () => void {
    this.#listeners.add(listener);
    this.#resets.add(reset);
    return () => {
      this.#listeners.delete(listener);
      this.#resets.delete(reset);
    };
  }

  async #run(signal: AbortSignal): Promise<void> {
    let pause = FIRST_PAUSE;
    while (!signal.aborted) {
      const connected = await this.#read(signal);
      if (signal.aborted) return;
      pause = connected ? FIRST_PAUSE : Math.min(pause * 2, LONGEST_PAUSE);
      if (this.state !== 'lost') this.lostAt = Date.now();
      this.state = 'lost';
      this.retryAt = Date.now() + pause * 1000;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pause * 1000);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Read until the connection ends; whether it had begun. */
  async #read(signal: AbortSignal): Promise<boolean> {
    let connected = false;
    try {
      const response = await fetch(address('events'), {
        headers: headers({ Accept: 'text/event-stream', 'Last-Event-ID': this.#position }),
        credentials: 'omit',
        signal,
      });
      if (response.status === 401) refusal.handler();
      if (response.status === 410) await this.#restart(signal);
      if (!response.ok || !response.body) return false;
      connected = true;
      if (this.state === 'lost') this.returns += 1;
      this.state = 'live';
      await this.#consume(response.body, signal);
    } catch {
      // A connection that breaks is the usual end; the caller tries again.
    }
    return connected;
  }

  async #consume(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
    const parser = createParser({
      onEvent: (event) => {
        if (event.id) this.#position = event.id;
        if (event.data) this.#add(JSON.parse(event.data) as DeskEvent);
      },
    });
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      parser.feed(value);
    }
  }

  /** The events after our position are gone from the log: continue from now, and load what is shown again. */
  async #restart(signal: AbortSignal): Promise<void> {
    const response = await fetch(address('position'), { headers: headers(), credentials: 'omit', signal });
    if (!response.ok) return;
    this.#position = ((await response.json()) as { position: string }).position;
    for (const reset of this.#resets) reset();
  }

  #add(event: DeskEvent): void {
    this.#batch.push(event);
    if (this.#batch.length === 1) requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    const batch = this.#batch;
    this.#batch = [];
    for (const listener of this.#listeners) listener(batch);
  }
}

export const stream = new EventStream();
