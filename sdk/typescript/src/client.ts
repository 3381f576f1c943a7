import pg from "pg";

/** `unsent`: what has failed before it was sent, of which the transaction does not know. */
export interface Loan { ended?: boolean; unsent?: unknown }

class TooLate extends Error {}

/** So that what nobody awaits does not end the process when it fails: COMMIT says so too, or `unsent`. */
export const quiet = <T>(made: Promise<T>, loan: Loan): Promise<T> =>
  (made.catch((error) => { if (![pg.DatabaseError, TooLate].some((one) => error instanceof one)) loan.unsent ??= error; }), made);

const keeping = new Set<PropertyKey>(["release", "end", "removeAllListeners", "setTypeParser"]); // how a client gets lost, or is another for who has it next
const refuse = (): never => { throw new Error("the client is Skald's: do not release, end or change it; a query has its own parsers as `types`"); };

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

/** The server has committed, and waits for its standbys no longer: a failover may lose it. */
export class InDoubt extends Error {}

export async function commit(client: pg.PoolClient, whose: string): Promise<void> {
  const warnings: string[] = [];
  const keep = ({ code, message }: { code?: string; message?: string }): void => { if (code === "01000") warnings.push(message ?? ""); };
  client.on("notice", keep);
  const { command } = await client.query("COMMIT").catch((error) => { // ROLLBACK, if a statement has failed since
    if (!(error instanceof pg.DatabaseError)) void (client as unknown as pg.Client).end(); // it says nothing, also to a ROLLBACK behind that
    throw error;
  }).finally(() => client.removeListener("notice", keep));
  if (command !== "COMMIT") throw new Error(`the transaction was rolled back: a statement of the ${whose} was not awaited, and failed`);
  if (warnings.length) throw new InDoubt(`committed, but possibly not durably: ${warnings[0]}`);
}
