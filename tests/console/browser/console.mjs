// The console in a real browser, on the databases of the order example: node console.mjs ADDRESS PICTURES
// What has to be there is made by browser.sh: sagas that completed, that were compensated, one that is stuck, one that waits
// because its service does not run.
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';

const [address, pictures] = process.argv.slice(2);
const patience = 60_000;
const pages = ['/', '/?status=compensated', '/saga?key=order-1', '/saga?key=order-2', '/saga?key=order-3', '/saga?key=order-8',
  '/parked', '/parked/one?service=payments&id=1', '/outbox', '/steps', '/services', '/versions', '/audit',
  `/act?verb=cancel&saga=${encodeURIComponent('orders\n\norder-8')}`,
  `/act?verb=drop&parked=${encodeURIComponent('payments\n1')}`, '/nowhere'];

const browser = await chromium.launch({
  executablePath: process.env.SKALD_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update',
    '--disable-sync'],
});

// A page whose console stays empty: what a browser complains of there is a mistake of ours.
async function visit(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.complaints = [];
  page.on('console', (said) => { if (said.type() === 'error' && !said.text().includes('404')) page.complaints.push(said.text()); });
  page.on('pageerror', (error) => page.complaints.push(error.message));
  page.on('request', (asked) => { if (!asked.url().startsWith(address)) page.complaints.push(`asks for ${asked.url()}`); });
  await page.goto(address + path);
  return page;
}

async function leave(page) {
  assert.deepEqual(page.complaints, [], 'the browser complains of nothing');
  await page.context().close();
}

const tests = [];
const test = (name, run) => tests.push([name, run]);

for (const [width, colorScheme] of [[1440, 'light'], [1440, 'dark'], [360, 'light'], [360, 'dark']])
  test(`every page fits ${width} pixels and is accessible, ${colorScheme}`, async () => {
    for (const path of pages) {
      const page = await visit(path, { viewport: { width, height: 800 }, colorScheme });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(overflow, 0, `${path} is wider than the screen`);
      const clipped = await page.evaluate(() => [...document.querySelectorAll('nav, .row > *')]
        .filter((part) => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).textOverflow !== 'ellipsis')
        .map((part) => part.outerHTML));
      assert.deepEqual(clipped, [], `${path} overprints or cuts off`);
      // Through the debugger's own world, where the page's policy does not count.
      await page.evaluate(axe.source);
      const found = await page.evaluate(() => globalThis.axe.run(document));
      assert.ok(found.passes.length > 10, 'axe has looked');
      assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [], path);
      await leave(page);
    }
  });

test('every page is whole without JavaScript, and an act is done there', async () => {
  for (const path of pages) await leave(await visit(path, { javaScriptEnabled: false }));
  const page = await visit('/?status=running', { javaScriptEnabled: false });
  await page.getByLabel('choose order-8').check();
  await page.getByRole('button', { name: 'pause…' }).click();
  await page.getByLabel('Why?').fill('without a script');
  await page.getByLabel('to confirm').fill('order-8');
  await page.getByRole('button', { name: 'Pause 1 saga' }).click();
  await page.getByText('pause: 1 of 1 done').waitFor();
  await leave(page);
});

test('a saga is found and resumed by keyboard alone', async () => {
  const page = await visit('/');
  const tab_to = async (what) => {
    for (let i = 0; i < 120; ++i) {
      await page.keyboard.press('Tab');
      const here = await page.evaluate(() => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.name
        ?? '') + '|' + document.activeElement.textContent.trim());
      if (here.includes(what)) return;
    }
    assert.fail(`no way to ${what} by Tab`);
  };
  await tab_to('key|');
  await page.keyboard.type('order-8');
  await page.keyboard.press('Enter');
  await page.waitForURL(/key=order-8/);
  await tab_to('order-8place-order');
  await page.keyboard.press('Enter');
  await page.waitForURL(/saga\?/);
  await tab_to('resume…');
  await page.keyboard.press('Enter');
  await page.waitForURL(/act\?/);
  await tab_to('reason|');
  await page.keyboard.type('by keyboard');
  await page.keyboard.press('Tab');
  await page.keyboard.type('order-8');
  await page.keyboard.press('Enter');
  await page.getByText('resume: 1 of 1 done').waitFor();
  await leave(page);
});

test('a script in a body stays text', async () => {
  for (const path of ['/saga?key=order-5', '/parked']) {
    const page = await visit(path);
    page.on('dialog', () => page.complaints.push('a script ran'));
    if (path !== '/parked') {
      await page.getByText('Data', { exact: true }).click();
      await page.getByText('<script>alert(1)</script>').first().waitFor();
    }
    await leave(page);
  }
});

test('a page shows what has happened since, by itself', async () => {
  const watched = await visit('/saga?key=order-8');
  const page = await visit(`/act?verb=cancel&saga=${encodeURIComponent('orders\n\norder-8')}`);
  await page.getByLabel('Why?').fill('a test');
  await page.getByLabel('to confirm').fill('order-8');
  await page.getByRole('button', { name: 'Cancel 1 saga' }).click();
  await page.getByText('cancel: 1 of 1 done').waitFor();
  await watched.getByText('A cancel was requested by').waitFor();
  await leave(page);
  await leave(watched);
});

test('a parked delivery is replayed, and the audit says why', async () => {
  const page = await visit('/parked/one?service=payments&id=1');
  await page.getByRole('link', { name: 'replay…' }).click();
  await page.getByLabel('Why?').fill('the till was mended');
  await page.getByLabel('to confirm').fill('1');
  await page.getByRole('button', { name: 'Replay 1 parked delivery' }).click();
  await page.getByText('replay: 1 of 1 done').waitFor();
  await page.goto(`${address}/audit`);
  await page.locator('q').getByText('the till was mended').waitFor();
  await leave(page);
});

test('a stuck saga is retried, after a confirmation that was wrong', async () => {
  const page = await visit('/saga?key=order-6');
  await page.getByRole('link', { name: 'retry…' }).click();
  await page.getByLabel('Why?').fill('a test');
  await page.getByLabel('to confirm').fill('order-7');
  await page.getByRole('button', { name: 'Retry 1 saga' }).click();
  await page.getByRole('alert').getByText('Type exactly “order-6” to confirm.').waitFor();
  await page.getByLabel('to confirm').fill('order-6');
  await page.getByRole('button', { name: 'Retry 1 saga' }).click();
  await page.getByText('retry: 1 of 1 done').waitFor();
  page.complaints = page.complaints.filter((said) => !said.includes('422'));
  await leave(page);
});

test('what a saga is stuck on is dropped only by someone who says so', async () => {
  const page = await visit('/parked');
  await page.getByLabel('choose delivery 3').check();
  await page.getByRole('button', { name: 'drop…' }).click();
  await page.getByText('can never go on without it').waitFor();
  await page.getByLabel('Why?').fill('a test');
  await page.getByLabel('to confirm').fill('3');
  await page.getByLabel('I will close these by hand').check();
  await page.getByRole('button', { name: 'Drop 1 parked delivery' }).click();
  await page.getByText('drop: 1 of 1 done').waitFor();
  await leave(page);
});

test('three pictures for the documentation', async () => {
  mkdirSync(pictures, { recursive: true });
  for (const [name, path] of [['console_sagas', '/?key=order-'], ['console_saga', '/saga?key=order-2'], ['console_stuck', '/saga?key=order-3']]) {
    const page = await visit(path, { viewport: { width: 1180, height: 760 }, deviceScaleFactor: 1 });
    await page.screenshot({ path: `${pictures}/${name}.png` });
    await leave(page);
  }
});

// The pictures first: what comes later changes what they show.
tests.unshift(tests.pop());
let failed = 0;
for (const [name, run] of tests) {
  try {
    await run();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack}`);
  }
}
await browser.close();
console.log(failed === 0 ? 'all well' : `${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
