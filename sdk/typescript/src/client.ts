import type { EventEmitter } from "node:events";
import { Stream } from "node:stream";
import pg from "pg";
import { lines } from "./text.js";

/** What is known of a client while it is a step's or handler's. */
export interface Loan {
  /** It is no longer. */
  ended?: boolean;
  /** What has failed before it was sent, so that the transaction does not know of it. */
  unsent?: unknown;
  /** What has ended the transaction, and no savepoint has undone. */
  failed?: pg.DatabaseError;
  /** The last one of these, undone or not. */
  met?: pg.DatabaseError;
  /** One of them was 2D000: who uses the client has ended the transaction, or tried to. */
  over?: boolean;
  /** Each ends what was made to listen to the client. */
  heard?: (() => unknown)[];
  /** The connection was; or why. */
  lost?: unknown;
  /** The connection is given up, because of left.ts. */
  left?: boolean;
  /** Ends a step or handler that waits for a stream whose error nobody hears. */
  unheard?: (error: unknown) => void;
}

/** SQLSTATEs of what another transaction has caused. */
export const contention = new Set(["40001", "40P01", "55P03"]);

class TooLate extends Error {}

function note(error: unknown, loan: Loan): void {
  if (!(error instanceof pg.DatabaseError)) loan.unsent ??= error instanceof TooLate ? undefined : error;
  else if (error.code !== "25P02") { // which says that another has failed
    loan.failed = loan.met = error;
    loan.over ||= error.code === "2D000";
  }
}

// Where a statement has failed, none but ROLLBACK succeeds.
const succeeded = (loan: Loan): void => void delete loan.failed;

/** So that what nobody awaits does not end the process when it fails: COMMIT says so too, or `unsent`. */
export function quiet<T>(made: Promise<T>, loan: Loan): Promise<T> {
  made.then(() => succeeded(loan), (error) => note(error, loan));
  return made;
}

/** Likewise for what is submitted, as cursors and COPY are: its error is an event. Where nobody else hears it, it would be waited for in vain. */
function submitted(client: pg.PoolClient, one: Submitted, loan: Loan, call: () => unknown): unknown {
  one.on?.("error", (error) => {
    const isUnheard = one.listenerCount("error") === 1;
    if (error instanceof pg.DatabaseError || isUnheard) note(error, loan);
    if (isUnheard && one instanceof Stream) loan.unheard?.(error); // a cursor's read() has it too
  });
  // The time that pg gives to a query would go on behind its end, keep the process until then, and keep the event of its error.
  const limits = (client as any).connectionParameters, { query_timeout } = limits;
  limits.query_timeout = false;
  try {
    return call();
  } finally {
    limits.query_timeout = query_timeout;
  }
}
type Submitted = Pick<EventEmitter, "listenerCount"> & { on?: EventEmitter["on"] };

const wasRolledBack = (whose: string): string => `the transaction was rolled back: a statement of the ${whose} was not awaited, and failed`;

/** Where the server says only that another statement has failed: that one's error. */
export function explained(error: any, { failed }: Loan, whose: string): any {
  if (error?.code !== "25P02" || !failed) return error;
  const why = `${wasRolledBack(whose)}, or its error was caught: ${failed.message}`;
  return Object.assign(new Error(why), { code: failed.code, stack: `Error: ${why}${lines(failed).replace(/^[^\n]*/, "")}` }); // its frames
}

const keeping = new Set<PropertyKey>(["release", "end", "removeAllListeners", "setTypeParser"]); // how it gets lost, or another for the next
const hearing = new Set<PropertyKey>(["on", "once", "addListener", "prependListener", "prependOnceListener"]);
const refuse = (): never => { throw new Error("the client is Skald's: do not release, end or change it; a query has its own parsers as `types`"); };

/** The client for as long as it is the caller's: afterwards its transaction is another delivery's. */
export function lent(client: pg.PoolClient, loan: Loan, tooLate: string): pg.PoolClient {
  const own: pg.PoolClient = new Proxy(client, { set: refuse, get: (of, name) => {
    const value = keeping.has(name) ? refuse : Reflect.get(of, name);
    return typeof value !== "function" ? value : (...given: unknown[]) => {
      if (loan.ended) throw new TooLate(tooLate);
      const noted = (one: unknown): unknown => (name !== "query" || typeof one !== "function" ? one
        : (error: unknown, ...more: unknown[]) => (error ? note(error, loan) : succeeded(loan), one(error, ...more)));
      const call = (): unknown => value.apply(of, given.map(noted));
      const made = name === "query" && typeof (given[0] as any)?.submit === "function" ? submitted(client, given[0] as Submitted, loan, call) : call();
      if (hearing.has(name)) (loan.heard ??= []).push(() => client.removeListener(given[0] as "notice", given[1] as () => void));
      return made === of ? own : made instanceof Promise ? quiet(made, loan) : made;
    };
  } });
  return own;
}

/** With the transaction, before the client is another's. */
export function endListening({ heard }: Loan): void { heard?.forEach((end) => end()); }

/** The server has committed, and waits for its standbys no longer: a failover may lose it. */
export class InDoubt extends Error {}

export async function commit(client: pg.PoolClient, whose: string): Promise<void> {
  const warnings: string[] = [];
  const keep = ({ code, message, routine }: { code?: string; message?: string; routine?: string }): void => {
    if (code === "01000" && routine !== "exec_stmt_raise") warnings.push(message ?? ""); // a RAISE is a deferred trigger's
  };
  client.on("notice", keep);
  const { command } = await client.query("COMMIT").catch((error) => { // ROLLBACK, if a statement has failed since
    if (!(error instanceof pg.DatabaseError)) void (client as unknown as pg.Client).end(); // it says nothing, also to a ROLLBACK behind that
    throw error;
  }).finally(() => client.removeListener("notice", keep));
  if (command !== "COMMIT") throw new Error(wasRolledBack(whose));
  if (warnings.length) throw new InDoubt(`committed, but possibly not durably: ${warnings[0]}`);
}
