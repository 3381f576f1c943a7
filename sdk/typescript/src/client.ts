import pg from "pg";

/** `unsent`: what has failed before it was sent, of which the transaction does not know. */
export interface Loan { ended?: boolean; unsent?: unknown }

class TooLate extends Error {}

/** So that what nobody awaits does not end the process when it fails: COMMIT says so too, or `unsent`. */
export const quiet = <T>(made: Promise<T>, loan: Loan): Promise<T> =>
  (made.catch((error) => { if (![pg.DatabaseError, TooLate].some((one) => error instanceof one)) loan.unsent ??= error; }), made);

const keeping = new Set<PropertyKey>(["release", "end", "removeAllListeners"]); // how a client gets lost to who has it
const refuse = (): never => { throw new Error("the client is Skald's: do not release, end or change it"); };

/** The client for as long as it is the caller's: afterwards its transaction is another delivery's. */
export function lent(client: pg.PoolClient, loan: Loan, tooLate: string): pg.PoolClient {
  const own: pg.PoolClient = new Proxy(client, { set: refuse, get: (of, name) => {
    const value = keeping.has(name) ? refuse : Reflect.get(of, name);
    return typeof value !== "function" ? value : (...given: unknown[]) => {
      if (loan.ended) throw new TooLate(tooLate);
      const made = value.apply(of, given);
      return made === of ? own : made instanceof Promise ? quiet(made, loan) : made;
    };
  } });
  return own;
}
