// The script of the status page. It loads the paths "objects" and "explain" beside the page. It writes all values as text nodes, so no value can become markup.

const pageSize = 200, refreshInterval = 10_000;
const handlerStates = ['due', 'waiting', 'failed'];
const filters = {
  unfinished: o => o.unfinished.length > 0,
  failing: o => o.errors.length > 0 || o.unfinished.some(u => u.state === 'failed'),
  looping: o => o.looping === true,
  waiting: o => o.unfinished.some(u => u.state === 'waiting'),
  deleting: o => o.deleting === true,
  paused: o => o.paused === true,
  held: o => o.waits.length > 0,
};
// The table begins with the objects that match the first of these filters.
const urgency = ['failing', 'looping', 'deleting', 'unfinished', 'paused', 'held'];

const $ = id => document.getElementById(id);
const number = n => n.toLocaleString('en');
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? '' : 's'}`;
const qualified = kind => kind.group ? `${kind.kind}.${kind.group}` : kind.kind;
const clip = text => text.length > 300 ? text.slice(0, 300) + '…' : text;

// fill sets attributes and appends children to a new element. Strings become text nodes.
function fill(created, attributes = {}, children = []) {
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children);
  return created;
}
const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS($('svg').namespaceURI, name), attributes, children);

// table returns a table. The roles are explicit, because the style sheet shows rows as blocks on narrow screens, and browsers then drop the roles of tables.
const row = (columns, cells) => element('tr', { role: 'row' }, ...cells.map((cell, i) => element(i ? 'td' : 'th',
  i ? { role: 'cell', 'data-label': columns[i] } : { role: 'rowheader', scope: 'row' }, ...[cell].flat())));
const table = (className, caption, columns, rows) => element('table', { class: className, role: 'table' }, element('caption', {}, caption),
  element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...columns.map(c => element('th', { role: 'columnheader', scope: 'col' }, c)))),
  element('tbody', { role: 'rowgroup' }, ...rows.map(cells => row(columns, cells))));
const badge = (text, className = text) => element('span', { class: 'badge ' + className.replaceAll(' ', '-') }, text);
const list = items => items.length ? [element('ul', {}, ...items.map(item => element('li', {}, ...[item].flat())))] : [];

// setText leaves equal text alone, so that screen readers announce only changes.
function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

let kinds = [], objects = [], shown = pageSize, loads = 0, loading = 0, listFailure = '', objectFailure = '', explained = null;

// ---- Loading

const advice = {
  400: 'Open the object from the list of all objects.',
  401: 'Log in, or send a token of a user who has the verb get for the non-resource URLs /kopf/*.',
  403: 'Ask an administrator for a role with the verb get for the non-resource URLs /kopf/*.',
  404: 'Check the address.',
  503: 'If the operator is starting, wait and reload. If it has several replicas, open the page of the leader.',
  502: 'The operator received this error from the API server. Reload to try again.',
};

async function get(path) {
  let response;
  try {
    response = await fetch(path, { headers: { Accept: 'application/json' } });
  } catch (error) {
    throw new Error(`The browser cannot reach the operator (${error.message}).\nCheck that the operator is running and that the port forwarding or proxy is open, and reload.`);
  }
  const body = await response.json().catch(() => undefined);
  if (response.ok && body !== undefined) return body;
  if (response.ok) throw new Error('The answer is not JSON.\nA proxy may have answered instead of the operator. Log in to the proxy, and reload.');
  const text = body?.error ?? `The operator answered with status ${response.status}`;
  throw new Error(`${text}.\n${advice[response.status] ?? 'Reload to try again. The log of the operator contains details.'}`);
}

// prepare adds the derived fields of all objects. It names each field that the page shows, so the page does not show other fields of a response.
function prepare(all) {
  kinds = (all ?? []).map(({ group, version, kind, handlers, objects }) => ({ group, version, kind, handlers: handlers ?? [], objects: objects ?? [] }));
  for (const kind of kinds) {
    const id = qualified(kind);
    kind.objects = kind.objects.map(({ namespace = '', name, unfinished, deleting, paused, looping, waits, error }) => {
      const o = { kind: kind.kind, id, namespace, name, unfinished: unfinished ?? [], deleting, paused, looping, waits: waits ?? [] };
      o.errors = error ? [error] : [];
      for (const u of o.unfinished) if (u.error && !error?.includes(u.error)) o.errors.push(`${u.handler}: ${u.error}`);
      o.text = [name, namespace, ...o.unfinished.map(u => u.handler), ...o.errors].join('\n').toLowerCase();
      o.states = Object.keys(filters).filter(f => filters[f](o));
      o.order = urgency.findIndex(f => o.states.includes(f));
      if (o.order < 0) o.order = urgency.length;
      o.link = '#' + [id, namespace, name].map(encodeURIComponent).join('/');
      return o;
    });
  }
  objects = kinds.flatMap(kind => kind.objects).sort((a, b) => a.order - b.order);
}

async function load() {
  loading++;
  $('main').setAttribute('aria-busy', 'true');
  await Promise.all([loadObjects(), loadObject()]);
  if (--loading === 0) $('main').removeAttribute('aria-busy');
}

async function loadObjects() {
  try {
    prepare(await get('objects'));
    listFailure = kinds.length ? '' : 'The operator is not running in this process: it is starting, or another replica is the leader.\nOpen the page of the leader, which the Lease of the operator names, or wait and reload.';
    $('loaded').textContent = 'Loaded at ' + new Date().toLocaleTimeString();
  } catch (error) {
    listFailure = error.message;
  }
  showView();
  showKinds();
  showObjects();
  if (explained) showExplanation(...explained); // with the errors of the list
  performance.mark('objects-shown');
}

// showView shows the list or one object, and above it the last failure.
function showView() {
  $('list').hidden = current() !== null || (kinds.length === 0 && listFailure !== '');
  $('object').hidden = current() === null;
  const text = objectFailure && current() ? objectFailure : listFailure;
  setText('error', text);
  $('error').hidden = !text;
}

// ---- The list

function showKinds() {
  $('kinds').replaceChildren(...kinds.map(kind => {
    const count = filter => kind.objects.filter(o => o.states.includes(filter)).length;
    const counts = [['objects', kind.objects.length], ...Object.keys(filters).map(f => [f, count(f)])];
    const perHandler = new Map();
    for (const o of kind.objects) for (const u of o.unfinished) {
      const states = perHandler.get(u.handler) ?? {};
      states[u.state] = (states[u.state] ?? 0) + 1;
      perHandler.set(u.handler, states);
    }
    const ids = kind.handlers.filter(id => perHandler.has(id)), others = kind.handlers.filter(id => !perHandler.has(id));
    const card = element('article', { class: 'kind' },
      element('h3', {}, kind.kind, ' ', element('span', { class: 'muted' }, [kind.group, kind.version].filter(Boolean).join('/'))),
      element('dl', { class: 'counts' }, ...counts.map(([name, n]) => element('div', {}, element('dt', {}, name), element('dd', n ? { class: name } : {}, number(n))))));
    if (ids.length) card.append(table('heat', 'Objects per unfinished handler and state', ['Handler', ...handlerStates],
      ids.map(id => [id, ...handlerStates.map(state => heat(state, perHandler.get(id)[state] ?? 0, kind.objects.length))])));
    if (others.length) card.append(element('p', { class: 'muted' }, 'Handlers without unfinished objects: ' + others.join(', ')));
    return card;
  }));
  const selected = $('kind').value || new URLSearchParams(location.search).get('kind') || '';
  $('kind').replaceChildren(element('option', { value: '' }, 'All kinds'), ...kinds.map(kind => element('option', { value: qualified(kind) }, kind.kind)));
  $('kind').value = kinds.some(kind => qualified(kind) === selected) ? selected : '';
}

// heat returns a bar on a logarithmic scale, and the number beside it.
function heat(state, n, total) {
  const width = n ? Math.max(3, 46 * Math.log1p(n) / Math.log1p(total)) : 0;
  return [svg('svg', { class: state, width: 48, height: 12, 'aria-hidden': 'true' },
    svg('rect', { class: 'frame', x: .5, y: .5, width: 47, height: 11 }), svg('rect', { class: 'fill', x: 1, y: 1, width, height: 10 })), number(n)];
}

const onlyFilter = () => $('form').elements.only.value;

function showObjects() {
  const words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean), kind = $('kind').value, only = onlyFilter();
  const found = objects.filter(o => (!kind || o.id === kind) && words.every(word => o.text.includes(word)));
  setText('count-all', number(found.length));
  for (const f of Object.keys(filters)) setText('count-' + f, number(found.filter(o => o.states.includes(f)).length));
  const matching = only ? found.filter(o => o.states.includes(only)) : found;
  const visible = matching.slice(0, shown);
  const focused = document.activeElement?.closest('#objects') && document.activeElement.getAttribute('href');
  $('objects').replaceChildren(...visible.length ? [table('wide objects', 'Objects with problems come first. Open an object to see why its handlers are called or not.',
    ['Name', 'Namespace', 'Kind', 'State', 'Unfinished handlers', 'Error'], visible.map(o => [
      element('a', { href: o.link }, o.name),
      o.namespace || [],
      o.kind,
      list(o.states.filter(s => s !== 'waiting' && s !== 'unfinished').map(s => badge(s))),
      list(o.unfinished.map(u => [`${u.handler} `, badge(u.state), ` ${plural(u.attempts, 'attempt')}`])),
      o.errors.length ? element('span', { class: 'error' }, clip(o.errors.join('\n'))) : [],
    ]))] : []);
  if (focused) focusLink(focused);
  $('more').hidden = visible.length === matching.length;
  $('more').textContent = `Show ${number(Math.min(pageSize, matching.length - visible.length))} more`;
  setText('result', result(matching.length, visible.length));
}

function result(matching, visible) {
  if (!objects.length) return listFailure ? '' : 'The operator has no objects.';
  if (!matching) return `None of ${plural(objects.length, 'object')} matches. Change the search or the filter.`;
  return `${number(matching)} of ${plural(objects.length, 'object')}` + (visible < matching ? `; the first ${number(visible)} are in the table` : '');
}

function focusLink(href) {
  const link = [...$('objects').querySelectorAll('a')].find(a => a.getAttribute('href') === href);
  (link ?? $('objects-title')).focus();
}

// search shows the first objects that match, and stores the search in the address.
function search() {
  shown = pageSize;
  const query = new URLSearchParams(Object.entries({ q: $('search').value, kind: $('kind').value, only: onlyFilter() }).filter(([, value]) => value)).toString();
  history.replaceState(null, '', location.pathname + (query && '?' + query) + location.hash);
  showObjects();
}

// ---- One object

// current returns the object that the fragment of the address names: #kind.group/namespace/name.
function current() {
  try {
    const [id, namespace, name] = location.hash.slice(1).split('/').map(decodeURIComponent);
    const dot = id.indexOf('.');
    return name ? { id, kind: dot < 0 ? id : id.slice(0, dot), group: dot < 0 ? '' : id.slice(dot + 1), namespace, name } : null;
  } catch {
    return null; // the fragment is not encoded correctly
  }
}

async function loadObject() {
  const object = current(), turn = ++loads;
  const title = object && `${object.kind} ${object.namespace ? object.namespace + '/' : ''}${object.name}`;
  document.title = object ? `${title} – Operator status` : 'Operator status';
  if (object && $('object-title').textContent !== title) {
    setText('object-title', title);
    $('explanation').replaceChildren();
    setText('object-status', 'Loading the explanation …');
    objectFailure = '';
    explained = null;
  }
  showView();
  if (!object) return;
  try {
    const { group, kind, namespace, name } = object;
    const explanation = await get('explain?' + new URLSearchParams({ group, kind, namespace, name }));
    if (turn !== loads) return; // the user has opened another object
    objectFailure = '';
    explained = [object, explanation];
    showExplanation(...explained);
  } catch (error) {
    if (turn !== loads) return;
    objectFailure = error.message;
    explained = null;
    setText('object-status', '');
    $('explanation').replaceChildren();
  }
  showView();
}

function showExplanation(object, e) {
  setText('object-status', (e.summary ?? e.cause) + (e.deleting && e.cause !== 'delete' ? ' (deleting)' : ''));
  const known = objects.find(o => o.id === object.id && o.namespace === object.namespace && o.name === object.name);
  const facts = [
    ['Waits', list(e.waits ?? [])],
    ['Reconcile', e.running ? 'the operator is reconciling the object now' : []],
    ['Last error', known?.errors.length ? element('span', { class: 'error' }, known.errors.join('\n')) : []],
    ['Finalizer', e.finalizer ? 'the object has the finalizer of the operator' : 'the object does not have the finalizer of the operator'],
    ['Other finalizers', e.otherFinalizers?.length ? e.otherFinalizers.join(', ') + (e.deleting ? ' – the API server keeps the object until other controllers remove them' : '') : []],
    ['Unknown', list(e.unknown ?? [])],
    ['Explained at', new Date(e.time).toLocaleString()],
  ].filter(([, value]) => value.length !== 0);
  const handlers = e.handlers ?? [], attempts = e.attempts ?? [], now = new Date(e.time);
  $('explanation').replaceChildren(
    element('dl', { class: 'facts' }, ...facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, ...[value].flat())])),
    ...timeline(handlers, attempts, now),
    table('wide', 'Handlers', ['Handler', 'Kind', 'State', 'Attempts', 'Why', 'Next', 'Last error'], handlers.map(h => [
      h.id, h.kind ?? [], badge(h.state), String(h.attempts ?? 0) + since(h, now), h.why ?? [],
      h.due ? element('time', { datetime: h.due, title: new Date(h.due).toLocaleString() }, 'in ' + duration(new Date(h.due) - now)) : [],
      h.lastError ? element('span', { class: 'error' }, h.lastError) : [],
    ])),
    ...attemptTable(attempts, now));
}

// since returns the time that a handler has taken so far, or until its end.
const since = (h, now) => h.started ? ` in ${duration((h.ended ? new Date(h.ended) : now) - new Date(h.started))}` : '';

// duration returns the two largest units of a time in milliseconds, such as "2 h 5 min".
function duration(milliseconds) {
  let rest = Math.max(0, Math.round(milliseconds / 1000));
  const parts = [];
  for (const [unit, seconds] of [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]]) {
    if (rest >= seconds) parts.push(`${Math.floor(rest / seconds)} ${unit}`);
    rest %= seconds;
  }
  return parts.slice(0, 2).join(' ') || '0 s';
}

// timeline draws for each handler the time since it began, its attempts and its next attempt. The axis is logarithmic on both sides of now.
function timeline(handlers, attempts, now) {
  const seconds = time => (new Date(time) - now) / 1000;
  const rows = new Map(), row = id => rows.get(id) ?? rows.set(id, { id, attempts: [] }).get(id);
  for (const h of handlers) if (h.started || h.due) Object.assign(row(h.id), { state: h.state, began: h.started && seconds(h.started), ended: h.ended && seconds(h.ended), due: h.due && Math.max(0, seconds(h.due)) });
  for (const a of attempts) row(a.handler).attempts.push({ state: a.state, number: a.number, from: seconds(a.started), to: a.ended ? seconds(a.ended) : 0 });
  if (!rows.size) return [];
  const all = [...rows.values()], times = all.flatMap(r => [r.began ?? 0, r.due ?? 0, ...r.attempts.map(a => a.from)]);
  const first = Math.min(...times), last = Math.max(10, ...times) * 1.2, left = 200, width = 430;
  const log = s => Math.sign(s) * Math.log1p(Math.abs(s)), start = log(first && Math.min(first * 1.2, -10));
  const x = s => Math.round(10 * (left + width * (log(s) - start) / (log(last) - start))) / 10, bottom = 24 * all.length + 8;
  const ticks = [0];
  for (const sign of [-1, 1]) {
    let previous = x(0);
    for (const s of [1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000]) {
      const at = x(sign * s);
      if (at < left || at > left + width || Math.abs(at - previous) < 54) continue; // the texts would overlap
      ticks.push(sign * s);
      previous = at;
    }
  }
  const name = 'Attempts and next attempts';
  return [element('figure', {}, element('figcaption', {}, 'Attempts (left of now) and next attempts, on a logarithmic scale. A cross is an attempt that has failed.'),
    svg('svg', { class: 'times', viewBox: `0 0 720 ${bottom + 22}`, role: 'img', 'aria-labelledby': 'times-title', 'aria-describedby': 'times-desc' },
      svg('title', { id: 'times-title' }, name), svg('desc', { id: 'times-desc' }, all.map(describe).join('; ')),
      ...ticks.flatMap(s => [svg('line', { class: s ? 'rail' : 'frame', x1: x(s), x2: x(s), y1: 0, y2: bottom }),
        svg('text', { class: 'tick', x: x(s), y: bottom + 16, 'text-anchor': 'middle' }, s ? (s < 0 ? '−' : '') + duration(Math.abs(s) * 1000) : 'now')]),
      ...all.flatMap((r, i) => handlerLine(r, x, 24 * i + 16))))];
}

// describe returns a row of the time line as text.
function describe(row) {
  const parts = [], ago = s => duration(-s * 1000) + ' ago', last = row.attempts.at(-1);
  if (row.began !== undefined) parts.push('began ' + ago(row.began));
  if (row.ended !== undefined) parts.push(`${row.state} ${ago(row.ended)}`);
  if (last) parts.push(`attempt ${last.number} ${last.state} ` + ago(last.state === 'active' ? last.from : last.to));
  if (row.due !== undefined) parts.push('next in ' + duration(row.due * 1000));
  return `${row.id} ${parts.join(', ')}`;
}

// handlerLine draws the row of a handler around a vertical position.
function handlerLine(row, x, y) {
  const bar = (state, from, to, height) => svg('rect', { class: 'fill ' + state, x: x(from), y: y - height / 2, width: Math.max(1, Math.round(10 * (x(to) - x(from))) / 10), height });
  const shapes = [svg('text', { x: 0, y: y + 4 }, row.id.length > 26 ? row.id.slice(0, 25) + '…' : row.id)];
  if (row.began !== undefined) shapes.push(bar(row.state, row.began, row.ended ?? 0, 2));
  if (row.due !== undefined) shapes.push(bar(row.state, 0, row.due, 2));
  for (const a of row.attempts) {
    const end = x(a.to);
    shapes.push(svg('g', { class: a.state }, svg('title', {}, `Attempt ${a.number}: ${a.state}`), bar(a.state, a.from, a.to, 8),
      ['failed', 'retrying'].includes(a.state) ? svg('path', { class: 'cross', d: `M${end - 4} ${y - 4}l8 8m0 -8l-8 8` }) : svg('circle', { class: 'fill', cx: end, cy: y, r: 4 })));
  }
  if (row.due !== undefined) shapes.push(svg('circle', { class: 'next ' + row.state, cx: x(row.due), cy: y, r: 5 }), svg('text', { x: x(row.due) + 10, y: y + 4 }, duration(row.due * 1000)));
  return shapes;
}

// attemptTable lists the attempts, the last one first.
function attemptTable(attempts, now) {
  if (!attempts.length) return [];
  return [table('wide', 'Last attempts since the operator started', ['Handler', 'Attempt', 'Reason', 'Began', 'Duration', 'Result', 'Error'], attempts.toReversed().map(a => [
    a.handler, String(a.number), a.reason ?? [],
    element('time', { datetime: a.started, title: new Date(a.started).toLocaleString() }, duration(now - new Date(a.started)) + ' ago'),
    a.ended ? length(new Date(a.ended) - new Date(a.started)) : 'running', badge(a.state), a.error ? element('span', { class: 'error' }, a.error) : [],
  ]))];
}

// length returns a duration in milliseconds, which is often below a second.
const length = milliseconds => milliseconds < 1000 ? Math.round(milliseconds) + ' ms' : duration(milliseconds);

// ---- Events

$('form').addEventListener('submit', event => event.preventDefault());
$('form').addEventListener('input', search);
$('reload').addEventListener('click', load);
$('more').addEventListener('click', () => {
  const first = shown;
  shown += pageSize;
  showObjects();
  $('objects').querySelectorAll('a')[first]?.focus();
});
$('objects').addEventListener('click', event => {
  const link = event.target.closest('tr')?.querySelector('a');
  if (link && !event.target.closest('a') && getSelection().isCollapsed) location.hash = link.hash;
});
$('back').addEventListener('click', event => {
  event.preventDefault();
  location.hash = '';
});
addEventListener('hashchange', event => {
  loadObject();
  if (current()) $('object-title').focus();
  else focusLink(new URL(event.oldURL).hash);
});
setInterval(() => {
  if ($('auto').checked && !document.hidden && !loading) load();
}, refreshInterval);

const query = new URLSearchParams(location.search);
$('search').value = query.get('q') ?? '';
if (query.get('only') in filters) $('form').elements.only.value = query.get('only');
load();
