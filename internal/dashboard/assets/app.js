// SPDX-License-Identifier: Apache-2.0

// What pages do beyond links and forms: update themselves, copy, and read charts out.
// All of them work without it.
'use strict';

const main = document.getElementById('main');
const notice = document.getElementById('notice');
const pulse = document.getElementById('pulse');

// change makes the children of one element those of another, and leaves alone what is
// the same: focus, what is open, what is being read and what is being typed stay.
function change(from, to) {
  const old = [...from.childNodes];
  [...to.childNodes].forEach((next, i) => {
    const now = old[i];
    if (!now) from.append(next);
    else if (now.nodeName !== next.nodeName || now.id !== next.id) now.replaceWith(next);
    else if (now.nodeType !== Node.ELEMENT_NODE) {
      if (now.data !== next.data) now.data = next.data;
    } else if (!now.hasAttribute('data-keep')) {
      for (const a of [...now.attributes]) if (a.name !== 'open' && !next.hasAttribute(a.name)) now.removeAttribute(a.name);
      for (const a of next.attributes) if (a.name !== 'open' && now.getAttribute(a.name) !== a.value) now.setAttribute(a.name, a.value);
      change(now, next);
    }
  });
  old.slice(to.childNodes.length).forEach((n) => n.remove());
}

let tag = main.dataset.tag;
let since = new Date(); // when what is shown was known to be true
let waiting = false;

function stale(text, link) {
  if (pulse) pulse.className = text ? 'pulse stale' : 'pulse';
  if (pulse) pulse.textContent = text ? 'Stale' : 'Live';
  if (notice.dataset.text === text) return;
  notice.dataset.text = text;
  notice.textContent = text;
  if (link) notice.append(' ', link);
}

async function update() {
  if (waiting || document.hidden || !main.dataset.live) return;
  waiting = true;
  try {
    const answer = await fetch(location.href, {
      headers: { 'Assay-Live': '1', 'If-None-Match': tag }, cache: 'no-store', signal: AbortSignal.timeout(15000),
    });
    if (answer.status === 401) {
      const link = document.createElement('a');
      link.href = location.href;
      link.textContent = 'Sign in again.';
      delete main.dataset.live;
      return stale('You are signed out.', link);
    }
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const next = page.getElementById('page');
      tag = answer.headers.get('ETag');
      main.dataset.live = next.dataset.live;
      change(document.getElementById('page'), next);
      document.title = next.dataset.title;
      ready(main);
    }
    since = new Date();
    stale('');
  } catch {
    const time = since.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
    stale(`Not updated since ${time}. Trying again.`);
  } finally {
    waiting = false;
  }
}

// later waits as long as the page says, which changes with the page.
function later() {
  setTimeout(() => update().finally(later), 1000 * (Number(main.dataset.live) || 5));
}
if (main.dataset.live) {
  pulse.hidden = false;
  later();
  document.addEventListener('visibilitychange', update);
}

// ready shows what only works with a script.
function ready(root) {
  for (const b of root.querySelectorAll('[data-copy][hidden]')) b.hidden = false;
}
ready(document);

document.addEventListener('click', async (e) => {
  const menu = document.querySelector('.menu[open]');
  if (menu && !menu.contains(e.target)) menu.open = false;
  const button = e.target.closest('[data-copy]');
  if (!button) return;
  const text = button.dataset.copy || button.closest('.code').querySelector('code').textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
    notice.textContent = 'Copied';
  } catch {
    button.textContent = 'Not copied';
  }
  setTimeout(() => {
    button.textContent = 'Copy';
    if (notice.textContent === 'Copied') notice.textContent = '';
  }, 2000);
});

document.addEventListener('keydown', (e) => {
  const menu = document.querySelector('.menu[open]');
  if (e.key !== 'Escape' || !menu) return;
  menu.open = false;
  menu.querySelector('summary').focus();
});

// A form that takes long says so, and is sent once.
document.addEventListener('submit', (e) => {
  const button = e.target.querySelector('[data-wait]');
  if (!button) return;
  if (button.classList.contains('wait')) return e.preventDefault();
  button.classList.add('wait');
  button.setAttribute('aria-disabled', 'true');
  e.target.querySelector('[role=status]').textContent = button.dataset.wait;
});

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
