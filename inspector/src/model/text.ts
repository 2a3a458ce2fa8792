/** Numbers, sizes and times as they are shown. */

const grouped = new Intl.NumberFormat('en-US');
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short' });
const dayMonth = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long' });
const whole = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'medium' });

export function count(value: number): string {
  return grouped.format(value);
}

/** `12 messages`, `1 message`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function percent(ratio: number): string {
  const value = ratio * 100;
  return `${value > 0 && value < 1 ? '< 1' : Math.round(value)} %`;
}

/** A round figure for a limit: 128k, 1M. */
export function short(value: number): string {
  if (value >= 1_000_000) return `${trim(value / 1_000_000)}M`;
  if (value >= 1_000) return `${trim(value / 1_000)}k`;
  return String(value);
}

function trim(value: number): string {
  return value.toFixed(value < 10 ? 1 : 0).replace(/\.0$/, '');
}

export function money(value: number | string): string {
  const amount = Number(value);
  if (amount !== 0 && Math.abs(amount) < 0.01) return `$${amount.toPrecision(1)}`;
  return `$${amount.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  if (value < 1_000_000) return `${trim(value / 1000)} kB`;
  return `${(value / 1_000_000).toFixed(1)} MB`;
}

export function time(value: string | number): string {
  return clock.format(new Date(value));
}

export function fullTime(value: string | number): string {
  return whole.format(new Date(value));
}

/** `today 14:41`, `Fri 16:40`, `2 October`. */
export function day(value: string | number, now = Date.now()): string {
  const moment = new Date(value);
  const days = daysBetween(moment, new Date(now));
  if (days === 0) return `today ${clock.format(moment)}`;
  if (days < 7) return `${weekday.format(moment)} ${clock.format(moment)}`;
  const date = dayMonth.format(moment);
  return moment.getFullYear() === new Date(now).getFullYear() ? date : `${date} ${moment.getFullYear()}`;
}

/** How long ago, as briefly as a column allows: `now`, `4 s`, `12 min`, `3 h`, then the day. */
export function ago(value: string | number, now = Date.now()): string {
  const seconds = Math.round((now - new Date(value).getTime()) / 1000);
  if (seconds < 2) return 'now';
  if (seconds < 12 * 3600) return duration(seconds);
  return day(value, now);
}

export function duration(seconds: number): string {
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

export function daysBetween(earlier: Date, later: Date): number {
  const start = (date: Date) => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
  return Math.round((start(later) - start(earlier)) / 86_400_000);
}

/** The first line of a text, cut at a word. */
export function excerpt(text: string, length = 60): string {
  const line = text.trimStart().split('\n', 1)[0] ?? '';
  if (line.length <= length) return line;
  const cut = line.slice(0, length);
  return `${cut.replace(/\s+\S*$/, '') || cut}…`;
}
