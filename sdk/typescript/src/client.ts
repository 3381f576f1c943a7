import type pg from "pg";

/** So that what nobody awaits does not end the process when it fails: COMMIT says so too. */
export const quiet = <T>(made: Promise<T>): Promise<T> => (made.catch(() => undefined), made);

/** The client for as long as it is the caller's: afterwards its transaction is another delivery's. */
export function lent(client: pg.PoolClient, refusal: () => string | undefined): pg.PoolClient {
  return new Proxy(client, { get: (of, name) => {
    const value = Reflect.get(of, name);
    return typeof value !== "function" ? value : (...given: unknown[]) => {
      const why = refusal();
      if (why) throw new Error(why);
      const made = value.apply(of, given);
      return made instanceof Promise ? quiet(made) : made;
    };
  } });
}
