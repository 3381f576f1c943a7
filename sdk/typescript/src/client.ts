import type pg from "pg";

/** So that what nobody awaits does not end the process when it fails: COMMIT says so too. */
export const quiet = <T>(made: Promise<T>): Promise<T> => (made.catch(() => undefined), made);

const keeping = new Set<PropertyKey>(["release", "end", "removeAllListeners"]); // how a client gets lost to who has it
const refuse = (): never => { throw new Error("the client is Skald's: do not release, end or change it"); };

/** The client for as long as it is the caller's: afterwards its transaction is another delivery's. */
export function lent(client: pg.PoolClient, refusal: () => string | undefined): pg.PoolClient {
  const own: pg.PoolClient = new Proxy(client, { set: refuse, get: (of, name) => {
    const value = keeping.has(name) ? refuse : Reflect.get(of, name);
    return typeof value !== "function" ? value : (...given: unknown[]) => {
      const why = refusal();
      if (why) throw new Error(why);
      const made = value.apply(of, given);
      return made === of ? own : made instanceof Promise ? quiet(made) : made;
    };
  } });
  return own;
}
