// Closed loop: so many callers, each starts the next saga when its own has completed.
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';

/// `run(order)` resolves when the saga has completed. Figures are of those that ended after the warm-up.
export async function drive(run, callers, seconds, warmUp) {
  const from = performance.now() + warmUp * 1000, until = from + seconds * 1000;
  const times = [];
  let sagas = 0;
  const caller = async () => {
    while (performance.now() < until) {
      const began = performance.now();
      await run({ id: randomUUID(), customer: 'ada', sku: 'tea', quantity: 1, cents: 1200 });
      const ended = performance.now();
      ++sagas;
      if (ended >= from && ended < until) times.push(ended - began);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.max(Math.ceil(part * times.length) - 1, 0)] ?? null;
  return { sagas, callers, per_second: times.length / seconds, p50_ms: at(0.5), p99_ms: at(0.99) };
}

/// --seconds N, --callers A,B, --warm-up N: what peers.sh passes on.
export function readArguments() {
  const given = Object.fromEntries(process.argv.slice(2).map((word) => word.replace(/^--/, '').split('=')));
  return { seconds: Number(given.seconds ?? 10), warmUp: Number(given['warm-up'] ?? 3), callers: (given.callers ?? '1,50,400').split(',').map(Number) };
}

export function tell(peer, about, figures) {
  console.log(JSON.stringify({ peer, about, ...figures }));
}
