// Closed loop: this many callers, each starting the next saga when its own has completed.
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';

/// `run(makeOrder(id))` resolves when the saga has completed. The figures cover those that ended after the warm-up.
export async function drive(run, makeOrder, callers, seconds, warmUp) {
  const from = performance.now() + warmUp * 1000, until = from + seconds * 1000;
  const times = [];
  let sagas = 0;
  const caller = async () => {
    while (performance.now() < until) {
      const began = performance.now();
      await run(makeOrder(randomUUID()));
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

/// What peers.sh passes on: --scenario=NAME --seconds=N --warm-up=N --callers=A,B --customers=N --skus=N.
export function readArguments() {
  const given = Object.fromEntries(process.argv.slice(2).map((word) => word.replace(/^--/, '').split('=')));
  return {
    scenario: given.scenario ?? 'shop',
    shape: { customers: Number(given.customers ?? 50), skus: Number(given.skus ?? 40) },
    seconds: Number(given.seconds ?? 10),
    warmUp: Number(given['warm-up'] ?? 3),
    callers: (given.callers ?? '1,50,200').split(',').map(Number),
  };
}

export function tell(peer, about, figures) {
  console.log(JSON.stringify({ peer, about, ...figures }));
}
