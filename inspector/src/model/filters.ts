/** The filters of the session list: in the page's address, as words, and as the server's parameters. */

export type Field = 'agent' | 'channel' | 'peer' | 'tag' | 'model' | 'status';
export type Filter = { field: Field | 'when'; value: string; not: boolean };
export type ListView = 'all' | 'active' | 'full' | 'archived';

const fields: Field[] = ['agent', 'channel', 'peer', 'tag', 'model', 'status'];
export const names: Record<Filter['field'], string> = { agent: 'agent', channel: 'channel', peer: 'guest', tag: 'tag', model: 'model', status: 'status', when: 'started' };
export const periods: Record<string, { text: string; days: number }> = {
  today: { text: 'today', days: 1 },
  week: { text: 'in the last 7 days', days: 7 },
  month: { text: 'in the last 30 days', days: 30 },
};

export function readFilters(params: URLSearchParams): Filter[] {
  const found: Filter[] = [];
  for (const field of fields) {
    const value = params.get(field);
    if (value) found.push({ field, value, not: false });
  }
  for (const text of params.getAll('not')) {
    const at = text.indexOf(':');
    const field = fields.find((name) => name === text.slice(0, at));
    if (field) found.push({ field, value: text.slice(at + 1), not: true });
  }
  const when = params.get('when');
  if (when && periods[when]) found.push({ field: 'when', value: when, not: false });
  return found;
}

export function writeFilters(view: ListView, filters: Filter[]): string {
  const params = new URLSearchParams();
  if (view !== 'all') params.set('view', view);
  for (const filter of filters) {
    if (filter.not) params.append('not', `${filter.field}:${filter.value}`);
    else params.set(filter.field, filter.value);
  }
  const text = params.toString();
  return text && `?${text}`;
}

/** `channel is not cron` */
export function describe(filter: Filter): string {
  if (filter.field === 'when') return `started ${periods[filter.value]?.text}`;
  return `${names[filter.field]} ${filter.not ? 'is not' : 'is'} ${filter.value}`;
}

export function serverQuery(view: ListView, filters: Filter[], compactsAt: number): Record<string, string | number | string[]> {
  const query: Record<string, string | number | string[]> = {};
  if (view === 'active') query.status = 'active';
  if (view === 'archived') query.status = 'archived';
  if (view === 'full') query.min_usage = compactsAt;
  const excluded: string[] = [];
  for (const { field, value, not } of filters) {
    if (field === 'when') query.created_after = start(periods[value]?.days ?? 1);
    else if (not) excluded.push(`${field}:${value}`);
    else query[field] = value;
  }
  if (excluded.length) query.exclude = excluded;
  return query;
}

function start(days: number): string {
  const now = new Date();
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - days + 1).toISOString();
}
