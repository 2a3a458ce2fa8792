/** Markdown as a tree. The page turns the tree into components: HTML in a message stays text, so that there is nothing to clean. */

import type { Root } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmFromMarkdown } from 'mdast-util-gfm';
import { gfm } from 'micromark-extension-gfm';

export function parseMarkdown(text: string): Root {
  return fromMarkdown(text, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
}

/** Whether a text is only prose: then the parser has nothing to find, and most messages of a long session skip it. */
export function isPlain(text: string): boolean {
  return !/[*_`#>|~[\]\\<&]|^\s*(?:[-+]|\d+[.)])\s|^(?:\t| {4})|https?:|www\.|@|^[=-]{2,}\s*$|  $/m.test(text);
}

/** An address that a message may link to: http or https, else null. */
export function safeLink(address: string): string | null {
  try {
    const url = new URL(address);
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}
