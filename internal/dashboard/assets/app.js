// SPDX-License-Identifier: Apache-2.0

// What pages do beyond links and forms: update themselves, copy, and read charts out.
// All of them work without it.
'use strict';

const main = document.getElementById('main');
const notice = document.getElementById('notice'); // about the whole page
const said = document.getElementById('said'); // about what was just done; for the ear
const pulse = document.getElementById('pulse');

// key is by what an element is known again among its siblings, '' for none.
const key = (n) => (n.nodeType === Node.ELEMENT_NODE && (n.dataset.key || n.id)) || '';

// place puts a node before another. One that is there already keeps its focus where
// the browser can move it.
function place(parent, node, before) {
  if (node.parentNode === parent && parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}

// change makes the children of one element those of another, and leaves alone what is
// the same: focus, what is open, what is being read and what is being typed stay. What
// has a key goes where it is now; the rest is told by its position.
function change(from, to) {
  const keys = new Set([...to.childNodes].map(key));
  const known = new Map();
  const others = [];
  for (const n of [...from.childNodes]) {
    const k = key(n);
    if (!k) others.push(n);
    else if (keys.has(k) && !known.has(k)) known.set(k, n);
    else n.remove();
  }
  let at = from.firstChild; // what is before it is done
  for (const next of [...to.childNodes]) {
    const k = key(next);
    let now = k ? known.get(k) : others.shift();
    known.delete(k);
    if (now && now.nodeName !== next.nodeName) {
      if (at === now) at = now.nextSibling;
      now.remove();
      now = undefined;
    }
    if (!now) from.insertBefore(next, at);
    else {
      if (now === at) at = at.nextSibling;
      else place(from, now, at);
      renew(now, next);
    }
  }
  others.forEach((n) => n.remove());
}

// renew makes a node like another of its kind.
function renew(now, next) {
  if (now.nodeType !== Node.ELEMENT_NODE) {
    if (now.data !== next.data) now.data = next.data;
  } else if (!now.hasAttribute('data-keep')) {
    for (const a of [...now.attributes]) if (a.name !== 'open' && !next.hasAttribute(a.name)) now.removeAttribute(a.name);
    for (const a of next.attributes) if (a.name !== 'open' && now.getAttribute(a.name) !== a.value) now.setAttribute(a.name, a.value);
    change(now, next);
  }
}

let tag = main.dataset.tag;
let since = new Date(); // when what is shown was known to be true
let waiting = false;
let wrong = ''; // why what is shown is stale
let paused = remembered() === 'yes';

// Whether updates are paused is kept for the tab, where the browser allows that.
function remembered(value) {
  try {
    if (value) sessionStorage.setItem('assay-paused', value);
    return sessionStorage.getItem('assay-paused');
  } catch {
    return value;
  }
}

function showPulse() {
  const state = paused ? 'Paused' : wrong ? 'Stale' : 'Live';
  pulse.className = `pulse ${state.toLowerCase()}`;
  pulse.setAttribute('aria-pressed', paused);
  if (pulse.textContent !== state) pulse.textContent = state;
}

function stale(text) {
  wrong = text;
  showPulse();
  if (notice.textContent !== text) notice.textContent = text;
}

// update asks for the page again. Without being told to it asks only where the page
// changes by itself.
async function update(told) {
  const live = main.dataset.live;
  if (waiting || (told !== true && (paused || document.hidden || !live))) return;
  waiting = true;
  try {
    const answer = await fetch(location.href, {
      headers: { 'Assay-Live': '1', 'If-None-Match': tag }, cache: 'no-store', signal: AbortSignal.timeout(15000),
    });
    // Nobody is signed in: nothing of it stays on the screen.
    if (answer.status === 401) return location.replace(location.pathname + location.search);
    if (!live) return;
    if (answer.status !== 304) {
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('page');
      if (answer.status === 404 && next) {
        delete main.dataset.live;
        stale('What this page shows is not there any more.');
        pulse.hidden = true;
        return;
      }
      if (!answer.ok || !next) throw new Error(answer.status);
      tag = answer.headers.get('ETag');
      main.dataset.live = next.dataset.live;
      const focus = document.activeElement;
      change(document.getElementById('page'), next);
      if (focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true });
      document.title = next.dataset.title;
      ready(main);
    }
    since = new Date();
    stale('');
  } catch {
    if (live) stale(`Not updated since ${since.toISOString().slice(11, 19)} UTC. Trying again.`);
  } finally {
    waiting = false;
  }
}

// later waits as long as the page says, which changes with the page.
function later() {
  setTimeout(() => update().finally(later), 1000 * (Number(main.dataset.live) || 5));
}
if (main.dataset.live) {
  showPulse();
  pulse.hidden = false;
  pulse.addEventListener('click', () => {
    paused = !paused;
    remembered(paused ? 'yes' : 'no');
    stale('');
    update();
  });
  later();
  document.addEventListener('visibilitychange', update);
}

// A page that comes back may be of a session that has ended, and what was sent from it
// is over.
addEventListener('pageshow', (e) => {
  sent.forEach(release);
  if (e.persisted || performance.getEntriesByType('navigation')[0]?.type === 'back_forward') update(true);
});

// ready shows what only works with a script.
function ready(root) {
  for (const b of root.querySelectorAll('[data-copy][hidden]')) b.hidden = false;
}
ready(document);

// copy puts a text on the clipboard, also where browsers hide it: from pages without TLS.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const focus = document.activeElement;
  const area = document.createElement('textarea');
  area.className = 'copied';
  area.readOnly = true;
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  focus?.focus({ preventScroll: true });
  if (!done) throw new Error('not copied');
}

document.addEventListener('click', async (e) => {
  const menu = document.querySelector('.menu[open]');
  if (menu && !menu.contains(e.target)) menu.open = false;
  const button = e.target.closest('[data-copy]');
  if (!button) return;
  const text = button.dataset.copy || button.closest('.code').querySelector('code').textContent;
  try {
    await copy(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Not copied';
  }
  said.textContent = button.textContent;
  setTimeout(() => {
    button.textContent = 'Copy';
    said.textContent = '';
  }, 2000);
});

document.addEventListener('keydown', (e) => {
  if (e.key !== 'Escape') return;
  sent.forEach(release); // it stops loading
  const menu = document.querySelector('.menu[open]');
  if (!menu) return;
  menu.open = false;
  menu.querySelector('summary').focus();
});

// What changes something is sent once, and says so where it takes long. It may be sent
// again when the page comes back, when loading was stopped, and after a while.
const sent = new Set(); // forms
document.addEventListener('submit', (e) => {
  const form = e.target;
  if (form.method !== 'post') return;
  if (sent.has(form)) return e.preventDefault();
  sent.add(form);
  setTimeout(release, 60000, form);
  const button = form.querySelector('[data-wait]');
  if (!button) return;
  button.classList.add('wait');
  button.setAttribute('aria-disabled', 'true');
  form.querySelector('[role=status]').textContent = button.dataset.wait;
});

function release(form) {
  sent.delete(form);
  const button = form.querySelector('[data-wait]');
  if (!button) return;
  button.classList.remove('wait');
  button.removeAttribute('aria-disabled');
  form.querySelector('[role=status]').textContent = '';
}

// The row of a chart's table that lies under the pointer is read out above the chart.
document.addEventListener('pointermove', (e) => {
  const chart = e.target.closest?.('[data-chart]');
  document.querySelectorAll('.guide.on').forEach((g) => {
    if (chart?.contains(g)) return;
    g.classList.remove('on');
    const old = g.closest('figure').querySelector('.readout');
    old.textContent = old.dataset.rest;
  });
  if (!chart) return;
  const width = Number(chart.dataset.chart);
  const box = chart.getBoundingClientRect();
  const x = (width * (e.clientX - box.left)) / box.width;
  const figure = chart.closest('figure');
  let best;
  for (const row of figure.querySelectorAll('tr[data-x]')) {
    if (!best || Math.abs(row.dataset.x - x) < Math.abs(best.dataset.x - x)) best = row;
  }
  if (!best) return;
  const guide = chart.querySelector('.guide');
  for (const end of ['x1', 'x2']) guide.setAttribute(end, `${(100 * best.dataset.x) / width}%`);
  guide.classList.add('on');
  const out = figure.querySelector('.readout');
  const names = [...figure.querySelectorAll('thead th')].map((h) => h.dataset.name ?? h.textContent);
  out.dataset.rest ??= out.textContent;
  out.textContent = [...best.children].map((c, i) => `${names[i]} ${c.textContent.trim()}`.trim()).join('  ·  ');
});
