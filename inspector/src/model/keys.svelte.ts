/** The keyboard: each screen binds its keys while it is shown. Letters are off while somebody types, and can be switched off. */

const STORED = 'frontdesk.letters';

/** All keys, as the help shows them; `G` is Shift-g. */
export const table: [keys: string[], text: string][] = [
  [['/'], 'Search'],
  [['⌘K'], 'Jump to a session, or act'],
  [['j', 'k'], 'Next, previous'],
  [['↵'], 'Open'],
  [['Space'], 'Peek'],
  [['Esc'], 'Back'],
  [['J', 'K'], 'Next, previous question'],
  [['v'], 'As written, or as the model sees it'],
  [['o', 'O'], 'Open this fold, all tool calls'],
  [['[', ']'], 'Previous, next version of a message'],
  [['b'], 'Next branch point'],
  [['g'], 'Start'],
  [['G'], 'Head, and follow'],
  [['c', 'y'], 'Copy message, link'],
  [['f'], 'Filter the list'],
  [['?'], 'All keys'],
];

export type Bindings = Record<string, (event: KeyboardEvent) => void>;

class Keys {
  letters = $state(localStorage.getItem(STORED) !== 'off');
  #bound: Bindings[] = [];

  constructor() {
    addEventListener('keydown', (event) => this.#press(event));
  }

  setLetters(on: boolean): void {
    this.letters = on;
    localStorage.setItem(STORED, on ? 'on' : 'off');
  }

  /** Bind keys until the returned function is called. What was bound last is asked first. */
  bind(bindings: Bindings): () => void {
    this.#bound.push(bindings);
    return () => {
      this.#bound = this.#bound.filter((other) => other !== bindings);
    };
  }

  #press(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOf(event);
    const isLetter = !event.ctrlKey && !event.metaKey && event.key.length === 1;
    const target = event.target as HTMLElement;
    if (isLetter && (!this.letters || isTyping(target))) return;
    if (name === 'Enter' && target.closest('a, button, summary, input, textarea, select')) return;
    if (name === ' ' && target.closest('button, summary, input, textarea, select')) return;
    if (document.querySelector('dialog[open], :popover-open') && name !== 'mod+k') return;
    for (const bindings of this.#bound.toReversed()) {
      const action = bindings[name];
      if (!action) continue;
      event.preventDefault();
      action(event);
      return;
    }
  }
}

function nameOf(event: KeyboardEvent): string {
  if (event.metaKey || event.ctrlKey) return `mod+${event.key.toLowerCase()}`;
  if (event.altKey) return `alt+${event.key}`;
  return event.key;
}

function isTyping(target: HTMLElement): boolean {
  if (target instanceof HTMLInputElement) return !/^(checkbox|radio)$/.test(target.type);
  return target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName);
}

export const keys = new Keys();
