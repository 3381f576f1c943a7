// What becomes of a connection on which a step or a handler has left a cursor, a stream, a COPY or a statement open.
import { once } from "node:events";
import pg from "pg";
import type { Loan } from "./client.js";

const leftMax = 5000; // milliseconds that a statement may still take for which nobody waits

export class LeftOpen extends Error {
  constructor() {
    super("a cursor, stream or COPY was left open, or a long statement not awaited: close it, or await it, before the step or handler ends");
  }
}

/** What `pg` has in a client, and not in its types. */
interface Inner { readyForQuery: boolean; host: string; port: number; processID: number; secretKey: number }

/** Sets `left` if there is one: nothing gets through behind it, so the connection is given up. Who has thrown waits for no statement's end. */
export async function lookForLeft(pool: pg.Pool, client: pg.PoolClient, loan: Loan, hasThrown: boolean): Promise<void> {
  const inner = client as unknown as Inner, isWaiting = (): boolean => inner.readyForQuery === false && !loan.lost;
  const isReadySoon = !hasThrown || loan.met; // the server says so behind an error too
  if (isWaiting() && isReadySoon) await once(client, "drain", { signal: AbortSignal.timeout(leftMax) }).catch(() => undefined);
  if (!isWaiting()) return;
  loan.left = true;
  await terminate(pool, loan).catch(() => cancel(inner));
}

/** What a step makes, once the connection is free for what Skald writes. */
export async function ended<Made>(pool: pg.Pool, client: pg.PoolClient, loan: Loan, work: () => Promise<Made>): Promise<Made> {
  let hasThrown = true;
  const unheard = new Promise<never>((_, reject) => (loan.unheard = reject));
  try {
    const made = await Promise.race([work(), unheard]);
    hasThrown = false;
    return made;
  } finally {
    loan.ended = true;
    await lookForLeft(pool, client, loan, hasThrown);
    if (loan.left && !hasThrown) throw new LeftOpen();
  }
}

/** Ends the server's side, which may work on else, and keep the claim; and waits for that. The pool may be full. */
async function terminate({ options }: pg.Pool, { pid }: Loan): Promise<void> {
  const other = new pg.Client({ ...options, connectionTimeoutMillis: leftMax, query_timeout: 2 * leftMax }).on("error", () => undefined);
  try {
    await other.connect();
    await other.query("SELECT pg_terminate_backend($1, $2)", [pid, leftMax]);
  } finally {
    void other.end();
  }
}

/** Where no other connection is to be had. The server drops it if it has yet to read the statement. */
async function cancel({ host, port, processID, secretKey }: Inner): Promise<void> {
  const other: any = new pg.Connection();
  other.on("error", () => undefined).once("connect", () => other.cancel(processID, secretKey));
  if (host.startsWith("/")) other.connect(`${host}/.s.PGSQL.${port}`);
  else other.connect(port, host);
  await once(other, "end", { signal: AbortSignal.timeout(leftMax) }).catch(() => undefined);
  other.stream.destroy();
}
