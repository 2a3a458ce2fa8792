/** Named character references in Markdown. The parser's own version asks an element's `innerHTML`, which neither the page's policy
 * nor a worker allows, and the whole table is larger than the parser; these are the names that people write. Others stay as they
 * were written. */

const names: Record<string, string> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: '\'', nbsp: '\u00a0', ensp: '\u2002', emsp: '\u2003', thinsp: '\u2009', shy: '\u00ad',
  copy: '©', reg: '®', trade: '™', deg: '°', plusmn: '±', times: '×', divide: '÷', micro: 'µ', middot: '·', para: '¶', sect: '§',
  hellip: '…', ndash: '–', mdash: '—', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', laquo: '«', raquo: '»', bull: '•', dagger: '†',
  euro: '€', pound: '£', yen: '¥', cent: '¢', larr: '←', uarr: '↑', rarr: '→', darr: '↓', harr: '↔', infin: '∞', ne: '≠', le: '≤', ge: '≥',
  asymp: '≈', frac12: '½', frac14: '¼', frac34: '¾', sup2: '²', sup3: '³', alpha: 'α', beta: 'β', gamma: 'γ', delta: 'δ', lambda: 'λ', pi: 'π',
  szlig: 'ß', auml: 'ä', ouml: 'ö', uuml: 'ü', Auml: 'Ä', Ouml: 'Ö', Uuml: 'Ü', eacute: 'é', egrave: 'è', agrave: 'à', ccedil: 'ç', ntilde: 'ñ',
};

export function decodeNamedCharacterReference(name: string): string | false {
  return Object.hasOwn(names, name) ? (names[name] ?? false) : false;
}
