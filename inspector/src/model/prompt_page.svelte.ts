/** What the screen of the prompt shows: the blocks, the frozen prompt, and the versions of one block. */

import { api, part, ref } from '../api/client';
import type { Block, BlockVersion, Breakdown, Prompt, SessionInfo } from '../api/types';

export class PromptPage {
  info = $state.raw<SessionInfo | null>(null);
  blocks = $state.raw<Block[]>([]);
  prompt = $state.raw<Prompt | null>(null);
  breakdown = $state.raw<Breakdown | null>(null);
  versions = $state.raw<BlockVersion[]>([]);
  sharing = $state<number | null>(null);
  error = $state.raw<unknown>(null);
  loaded = $state(false);

  constructor(readonly id: string) {}

  get path(): string {
    return `sessions/${ref(this.id)}`;
  }

  async load(): Promise<void> {
    try {
      const [info, blocks, prompt] = await Promise.all([
        api.get<SessionInfo>(this.path),
        api.get<{ items: Block[] }>(`${this.path}/blocks`),
        api.get<{ prompt: Prompt | null }>(`${this.path}/prompt`).catch(() => ({ prompt: null })),
      ]);
      this.info = info;
      this.blocks = blocks.items;
      this.prompt = prompt.prompt;
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.loaded = true;
    this.breakdown = await api.get<Breakdown>(`${this.path}/breakdown`).catch(() => null);
  }

  async loadVersions(label: string): Promise<void> {
    const path = `${this.path}/blocks/${part(label)}`;
    const [versions, sharing] = await Promise.all([
      api.get<{ items: BlockVersion[] }>(`${path}/versions`).catch(() => ({ items: [] })),
      api.get<{ sessions: number }>(`${path}/sharing`).catch(() => null),
    ]);
    this.versions = versions.items;
    this.sharing = sharing?.sessions ?? null;
  }

  frozenVersion(label: string): number | null {
    return this.prompt?.versions[label] ?? null;
  }

  isChanged(block: Block): boolean {
    const frozen = this.frozenVersion(block.label);
    return this.prompt !== null && frozen !== null && frozen !== block.version;
  }

  save(label: string, text: string, version: number): Promise<Block> {
    return api.put<Block>(`${this.path}/blocks/${part(label)}`, { text, author: 'inspector' }, { 'If-Match': `"${version}"` });
  }

  restore(label: string, version: number): Promise<Block> {
    return api.post<Block>(`${this.path}/blocks/${part(label)}/restore`, { version, author: 'inspector' });
  }
}
