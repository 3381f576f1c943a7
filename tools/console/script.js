// Makes a page live: asks for it again every few seconds, and replaces the part that changes. Everything works without.
(() => {
  'use strict';
  const every = 2000, at_most = 30000;
  const live = () => document.getElementById('live');
  if (!live() || !window.fetch) return;

  const lamp = document.createElement('span');
  lamp.className = 'live';
  lamp.title = 'live';
  document.querySelector('header .who')?.prepend(lamp);

  let tag = null, failures = 0;

  // Nothing is replaced under the hands of someone who chooses, types or has opened something in it.
  const in_use = () => {
    const part = live();
    return part.querySelector('input:checked, details[open]') !== null
      || (part.contains(document.activeElement) && document.activeElement.matches('input, select, textarea'))
      || (window.getSelection()?.toString() ?? '') !== '';
  };

  const keep_focus = (replace) => {
    const held = live().contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
    const scrolled = document.querySelector('.picture')?.scrollLeft ?? 0;
    replace();
    const picture = document.querySelector('.picture');
    if (picture) picture.scrollLeft = scrolled;
    if (held) live().querySelector(`[href="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (document.hidden || in_use()) return;
    const answer = await fetch(location.href, { headers: tag ? { 'If-None-Match': tag } : {}, cache: 'no-store' });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(String(answer.status));
    tag = answer.headers.get('ETag');
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const part = fresh.getElementById('live');
    if (!part || in_use()) return;
    if (part.innerHTML !== live().innerHTML) keep_focus(() => live().replaceWith(part));
    const tiles = fresh.querySelector('.tiles'), shown = document.querySelector('.tiles');
    if (tiles && shown && tiles.innerHTML !== shown.innerHTML && !shown.contains(document.activeElement)) shown.replaceWith(tiles);
    document.title = fresh.title;
  };

  const turn = async () => {
    try {
      await refresh();
      failures = 0;
    } catch {
      failures += 1;
    }
    lamp.classList.toggle('off', failures > 0);
    lamp.title = failures > 0 ? 'the console does not answer' : 'live';
    setTimeout(turn, Math.min(every * 2 ** failures, at_most));
  };
  setTimeout(turn, every);
})();
