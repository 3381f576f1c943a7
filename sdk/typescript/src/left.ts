// What becomes of a connection on which a step or a handler has left a cursor, a stream, a COPY or a statement open.
import { once } from "node:events";
import type pg from "pg";
import type { Loan } from "./client.js";

const leftMax = 5000; // milliseconds that a statement may still take for which nobody waits

export class LeftOpen extends Error {
  constructor() {
    super("a cursor, stream or COPY was left open, or a long statement not awaited: close it, or await it, before the step or handler ends");
  }
}

/** Sets `left` if there is one: nothing gets through behind it, so the connection is given up. release() closes its socket then, and within a
 * second the server ends what it works on (skald.enter_transaction()). Who has thrown waits for no statement's end. */
export async function lookForLeft(client: pg.PoolClient, loan: Loan, hasThrown: boolean): Promise<void> {
  const isWaiting = (): boolean => (client as any).readyForQuery === false && !loan.lost; // which pg has, and not in its types
  const isReadySoon = !hasThrown || loan.met; // the server says so behind an error too
  if (isWaiting() && isReadySoon) await once(client, "drain", { signal: AbortSignal.timeout(leftMax) }).catch(() => undefined);
  if (isWaiting()) loan.left = true;
}

/** What a step makes, once the connection is free for what Skald writes. */
export async function ended<Made>(client: pg.PoolClient, loan: Loan, work: () => Promise<Made>): Promise<Made> {
  let hasThrown = true;
  const unheard = new Promise<never>((_, reject) => (loan.unheard = reject));
  try {
    const made = await Promise.race([work(), unheard]);
    hasThrown = false;
    return made;
  } finally {
    loan.ended = true;
    await lookForLeft(client, loan, hasThrown);
    if (loan.left && !hasThrown) throw new LeftOpen();
  }
}
