// What a step has, and what it throws.
import type pg from "pg";

/** A business rejection: the step's writes are undone, and the saga compensates. Not after the pivot. */
export class Reject extends Error {}

/** Not yet: the step's writes are undone, and it runs again after that many milliseconds. It uses no attempt. */
export class Snooze extends Error {
  constructor(readonly milliseconds: number) {
    super(`again in ${milliseconds} ms`);
    if (!(Math.abs(milliseconds) < 1e14)) throw new RangeError(`Snooze waits for a number of milliseconds, and not for ${milliseconds}`);
  }
}

/** The step can't work with this data: the delivery is parked, and the saga is stuck until an operator looks. */
export class Malformed extends Error {}

/** A delivery, as it came. */
export interface Message {
  readonly type: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
  readonly messageId?: string;
  readonly contentType?: string;
  readonly givenUp?: boolean; // it is in the queue `skald.SERVICE.parked` by the delivery limit, or came back from there
}

/** What a step can use while it runs. It must not be kept. */
export interface Context {
  readonly client: pg.PoolClient; // in Skald's transaction: do not end it
  readonly scope: string;
  readonly saga: string; // its key
  readonly definition: string;
  readonly version: number; // of the data, as it came
  readonly step: string;
  readonly attempt: number; // from 1
  /** The derived key, the same for every attempt and delivery: what to give another system as the idempotency key. */
  readonly key: string;
  sql<Row extends pg.QueryResultRow = pg.QueryResultRow>(query: string, values?: unknown[]): Promise<pg.QueryResult<Row>>;
  publish(destination: string, type: string, body: unknown, ifUnrouted?: "keep" | "drop"): Promise<void>; // if the step commits, at least once
}
