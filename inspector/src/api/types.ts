/** What the server answers, in its own words. */

export type Role = 'read' | 'write' | 'admin';
export type Key = { agent: string; channel: string; peer: string; thread: string | null };
export type Status = 'active' | 'idle' | 'compacting' | 'suspended' | 'archived';

export type Desk = {
  version: string;
  namespace: string;
  namespaces: string[];
  store: string;
  role: Role;
  key: { name: string; role: Role } | null;
  compacts_at: number;
  position: string;
};

export type SessionInfo = {
  id: string;
  key: Key | null;
  name: string;
  status: Status;
  end_reason: string | null;
  parent_session_id: string | null;
  model: string | null;
  tags: string[];
  metadata: Record<string, unknown>;
  summary: string | null;
  message_count: number;
  token_count: number;
  prompt_tokens: number;
  max_tokens: number;
  window_usage: number;
  cost: string;
  compaction_count: number;
  branch_count: number;
  turn_since: string | null;
  compacting_since: string | null;
  created_at: string;
  last_active_at: string;
};

export type Page<T> = { items: T[]; next_cursor: string | null };

export type Part =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'tool-call'; id: string; name: string; arguments: unknown }
  | { type: 'tool-result'; call_id: string; content: unknown; name?: string; is_error?: boolean }
  | { type: 'file'; media_type: string; name?: string; url?: string; data?: string }
  | { type: 'data'; data_type?: string; data: unknown };

export type Message = {
  id: string;
  role: string;
  content: string | Part[];
  author: string | null;
  metadata: Record<string, unknown> | null;
  created_at: string;
  parent_id: string | null;
  tokens: number;
};

export type Entry = { position: number; message: Message; compaction_id: string | null; siblings: string[]; cut?: number | null };
export type Entries = { leaf_id: string | null; first: number; total: number; entries: Entry[] };

export type ViewItem = {
  kind: 'message' | 'summary' | 'note';
  position: number | null;
  message: Message;
  tokens: number;
  original_tokens: number;
  compaction_id: string | null;
  covered: number;
  siblings?: string[];
  cut?: number | null;
};
export type Missing = {
  reason: 'summary' | 'truncate' | 'reset' | 'window' | 'branch';
  messages: number;
  tokens: number;
  compaction_id: string | null;
  first: number | null;
  last: number | null;
};
export type View = { leaf_id: string | null; first: number; total: number; tokens: number; items: ViewItem[]; missing: Missing[] };

export type BlockPart = {
  label: string;
  kind: string;
  scope: string;
  description: string | null;
  tokens: number;
  max_tokens: number | null;
  version: number;
  frozen_version: number | null;
  changed: boolean;
};
export type UsageEntry = {
  id: string;
  at: string;
  model: string | null;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  cost: string;
};
export type Breakdown = {
  used: number;
  max: number;
  ratio: number;
  compacts_at: number;
  room: number;
  parts: { part: 'prompt' | 'tools' | 'summary' | 'system' | 'user' | 'assistant' | 'tool'; count: number; tokens: number }[];
  prompt_frozen_at: string | null;
  blocks: BlockPart[];
  covered_messages: number;
  covered_tokens: number;
  branch_messages: number;
  last_call: UsageEntry | null;
};

export type Run = {
  parent: number | null;
  first_id: string;
  last_id: string;
  first: number;
  messages: number;
  tokens: number;
  created_at: string;
  last_at: string;
  text: string;
  role: string;
  on_path: boolean;
  is_leaf: boolean;
};
export type OutlineCompaction = {
  id: string;
  kind: string;
  first: number;
  last: number;
  messages: number;
  tokens: number;
  created_at: string;
  extends: string[];
  applies: boolean;
  stale: boolean;
};
export type Fork = { session_id: string; name: string; message_id: string | null; position: number | null; created_at: string };
export type Outline = {
  head_id: string | null;
  parent_session_id: string | null;
  forked_at: string | null;
  runs: Run[];
  compactions: OutlineCompaction[];
  forks: Fork[];
};

export type TimelinePoint = { position: number; at: string; tokens: number; cost: string };
export type TimelineCompaction = {
  id: string;
  kind: string;
  at: string;
  position: number;
  first: number;
  last: number;
  tokens_before: number;
  tokens_after: number;
};
export type Timeline = { total: number; max_tokens: number; compacts_at: number; points: TimelinePoint[]; compactions: TimelineCompaction[] };

export type Turn = { holder: string | null; number: number | null; since: string | null; expires_at: string | null; waiting: string[] };

export type Compaction = {
  id: string;
  kind: string;
  summary: string | null;
  from_id: string;
  to_id: string;
  created_at: string;
  tokens: number;
  stale: boolean;
  details: {
    trigger?: string;
    ratio?: number;
    model?: string | null;
    duration?: number;
    messages_covered?: number;
    tokens_before?: number;
    tokens_after?: number;
  };
};

export type Block = {
  label: string;
  content: string;
  description: string | null;
  tokens: number;
  max_tokens: number | null;
  kind: string;
  scope: string;
  version: number;
};
export type BlockVersion = { version: number; content: string; author: string | null; created_at: string };
export type Prompt = { text: string; tokens: number; frozen_at: string; versions: Record<string, number> };

export type SearchHit = {
  session_id: string;
  message_id: string;
  role: string;
  snippet: string;
  created_at: string;
  kind: string;
  session_name: string;
  position: number;
  visible: boolean;
  key: Key | null;
  branch: string | null;
};
export type SearchAnswer = { hits: SearchHit[]; total: number; next_cursor: string | null };

export type UsageGroup = {
  day?: string | null;
  model?: string | null;
  agent?: string | null;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  cost: string;
};
export type UsageAnswer = { rows: UsageGroup[]; total: UsageGroup };

export type DeskEvent = {
  position: string;
  at: string;
  kind: string;
  session_id: string | null;
  message_id: string | null;
  data: Record<string, unknown>;
};
