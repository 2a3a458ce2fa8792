/** From messages to the rows of a conversation: a tool call shows its result, and messages of one answer follow each other
 * without a new heading. */

import type { Entry, Message, Part, ViewItem } from '../api/types';

export type Result = { content: unknown; isError: boolean; tokens: number; messageId: string; cut: number | null };

export type MessageRow = {
  kind: 'message';
  id: string;
  position: number;
  message: Message;
  parts: Part[];
  /** results of this message's tool calls, by the id of the call */
  results: Map<string, Result>;
  /** messages that are shown as part of this row */
  members: string[];
  tokens: number;
  originalTokens: number;
  compactionId: string | null;
  siblings: string[];
  cut: number | null;
  /** whether the same author goes on, so that no heading is needed */
  continues: boolean;
};
export type SummaryRow = { kind: 'summary'; id: string; position: number; message: Message; tokens: number; compactionId: string | null; covered: number };
export type NoteRow = { kind: 'note'; id: string; position: number; message: Message; tokens: number };
export type Row = MessageRow | SummaryRow | NoteRow;

export function partsOf(message: Message): Part[] {
  return typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
}

export function plainText(message: Message): string {
  const texts: string[] = [];
  for (const part of partsOf(message)) {
    if (part.type === 'text') texts.push(part.text);
    else if (part.type === 'tool-call') texts.push(`${part.name}(…)`);
    else if (part.type === 'tool-result') texts.push(contentText(part.content));
  }
  return texts.join('\n');
}

/** The content of a tool result as text: joined texts of parts, else JSON. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content) && content.every((part) => typeof part === 'object' && part !== null && 'text' in part)) {
    return content.map((part) => String((part as { text: unknown }).text)).join('\n');
  }
  return JSON.stringify(content, null, 2) ?? '';
}

export function argumentsText(value: unknown): string {
  const decoded = typeof value === 'string' ? parse(value) : value;
  return typeof decoded === 'string' ? decoded : JSON.stringify(decoded, null, 2);
}

/** Arguments on one line: `route=/checkout, p95, 2 h`. */
export function argumentsLine(value: unknown): string {
  const decoded = typeof value === 'string' ? parse(value) : value;
  if (typeof decoded !== 'object' || decoded === null) return String(decoded ?? '');
  const entries = Object.entries(decoded);
  const texts = entries.map(([name, inner]) => {
    const text = typeof inner === 'string' ? inner : JSON.stringify(inner);
    return entries.length === 1 ? text : `${name}=${text}`;
  });
  return texts.join(', ').replace(/\s+/g, ' ').slice(0, 300);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export function rowsOfEntries(entries: Entry[]): Row[] {
  return arrange(entries.map((entry) => rowOf(entry.message, entry.position, { ...entry, cut: entry.cut ?? null, tokens: entry.message.tokens, originalTokens: entry.message.tokens })));
}

export function rowsOfView(items: ViewItem[]): Row[] {
  const rows: Row[] = [];
  for (const item of items) {
    const { message, tokens } = item;
    const position = item.position ?? rows.at(-1)?.position ?? 0;
    if (item.kind === 'summary') rows.push({ kind: 'summary', id: message.id, position, message, tokens, compactionId: item.compaction_id, covered: item.covered });
    else if (item.kind === 'note') rows.push({ kind: 'note', id: message.id, position, message, tokens });
    else rows.push(rowOf(message, position, { compaction_id: null, siblings: item.siblings ?? [], cut: item.cut ?? null, tokens, originalTokens: item.original_tokens }));
  }
  return arrange(rows);
}

function rowOf(message: Message, position: number, facts: { compaction_id: string | null; siblings: string[]; cut: number | null; tokens: number; originalTokens: number }): MessageRow {
  return {
    kind: 'message',
    id: message.id,
    position,
    message,
    parts: partsOf(message),
    results: new Map(),
    members: [message.id],
    tokens: facts.tokens,
    originalTokens: facts.originalTokens,
    compactionId: facts.compaction_id,
    siblings: facts.siblings,
    cut: facts.cut,
    continues: false,
  };
}

/** Put tool results into the rows of their calls, and mark the rows that continue the one before. */
function arrange(rows: Row[]): Row[] {
  const shown: Row[] = [];
  const calls = new Map<string, MessageRow>();
  for (const row of rows) {
    if (row.kind !== 'message') {
      shown.push(row);
      continue;
    }
    const results = row.parts.filter((part) => part.type === 'tool-result');
    const caller = results.length === row.parts.length ? calls.get(results[0]?.call_id ?? '') : undefined;
    if (caller && caller.compactionId === row.compactionId && results.every((part) => calls.has(part.call_id))) {
      attach(caller, row);
      continue;
    }
    for (const part of row.parts) if (part.type === 'tool-call') calls.set(part.id, row);
    const before = shown.at(-1);
    row.continues = before?.kind === 'message' && sameSpeaker(before, row);
    shown.push(row);
  }
  return shown;
}

function attach(caller: MessageRow, row: MessageRow): void {
  caller.members.push(row.id);
  caller.tokens += row.tokens;
  caller.originalTokens += row.originalTokens;
  for (const part of row.parts) {
    if (part.type !== 'tool-result') continue;
    caller.results.set(part.call_id, { content: part.content, isError: part.is_error ?? false, tokens: row.tokens, messageId: row.id, cut: row.cut });
  }
}

function sameSpeaker(before: MessageRow, row: MessageRow): boolean {
  const answering = (message: Message) => message.role === 'assistant' || message.role === 'tool';
  return answering(before.message) && answering(row.message) && before.message.author === row.message.author && before.compactionId === row.compactionId && row.siblings.length < 2;
}
