/** Colours for code, as runs of text with a class. The grammars are loaded when the first code is shown. */

export type Run = { text: string; kind: string };

type Node = { type: string; value?: string; children?: Node[]; properties?: { className?: string[] } };
type Highlighter = { highlight(language: string, text: string): Node; registered(language: string): boolean };

const kinds: [RegExp, string][] = [
  [/keyword|literal|built_in|selector-tag|name|meta/, 'hl-k'],
  [/string|regexp|addition/, 'hl-s'],
  [/number|symbol|variable|bullet/, 'hl-n'],
  [/comment|quote|deletion/, 'hl-c'],
  [/title|attr|section/, 'hl-t'],
];

let loading: Promise<Highlighter> | null = null;

export async function highlight(text: string, language: string): Promise<Run[]> {
  loading ??= import('./grammars').then((module) => module.create());
  const lowlight = await loading;
  if (!lowlight.registered(language)) return [{ text, kind: '' }];
  const runs: Run[] = [];
  collect(lowlight.highlight(language, text), '', runs);
  return runs;
}

function collect(node: Node, kind: string, runs: Run[]): void {
  if (node.type === 'text') {
    runs.push({ text: node.value ?? '', kind });
    return;
  }
  const own = node.properties?.className?.join(' ');
  const inner = own ? (kinds.find(([pattern]) => pattern.test(own))?.[1] ?? kind) : kind;
  for (const child of node.children ?? []) collect(child, inner, runs);
}

/** The language of a text that says nothing about itself: JSON if it begins like it. */
export function guessLanguage(text: string): string {
  return /^\s*[[{]/.test(text) ? 'json' : '';
}
