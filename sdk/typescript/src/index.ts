// Steps of Skald's sagas in TypeScript: each happens once in effect. A step is a function, which runs in the transaction of a `pg` client
// with the record that it ran and the message to the next step. docs/languages.md has an example.
import type amqp from "amqplib";
import pg from "pg";
import { constants } from "node:os";
import { isDeepStrictEqual } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { connected, expectQueues, leave, WrongDatabase } from "./broker.js";
import { commit, contention, endListening, explained, InDoubt, lent, quiet, type Loan } from "./client.js";
import { Malformed, Reject, Snooze, type Context, type Message } from "./context.js";
import { Lanes } from "./lanes.js";
import { ended } from "./left.js";
import { dump, headersOf, line, lines, reason, refuseLostDigits, text, withText } from "./text.js";
import { amqpUrl, checkDatabaseUrl } from "./urls.js";

export { Malformed, Reject, Snooze, type Context, type Message };

/** Changes the data, or returns what it is from now on. Throws Reject, Snooze or Malformed; anything else is a fault, and is tried again. */
export type Work<Data> = (ctx: Context, data: Data) => Promise<Data | void>;

export interface Options<Data> {
  version?: number;
  attempts?: number;
  first_ms?: number;
  longest_ms?: number;
  deadline_ms?: number;
  upcast?: (data: unknown, version: number) => Data; // makes data of an older version data of this one
}

export interface Settings {
  databaseUrl?: string; // default: DATABASE_URL
  amqpUrl?: string; // default: AMQP_URL
  lanes?: number; // how many deliveries are processed at a time, each on a connection of its own. Default: 4
  declare?: boolean; // false: `skald declare` has made the queues, and this user may not
  log?: (line: string) => void;
}

interface Step {
  said: Record<string, unknown>;
  execute: Work<any>;
  compensate?: Work<any>;
  upcast?: (data: unknown, version: number) => unknown;
}

const contendedMax = 50, lostMax = 5; // in a row, before they count as an attempt of the step
const idleMax = 30000; // after that many ms of silence the server ends a transaction

class Stopping extends Error {}
interface Held extends Loan { taken?: string; since?: number }

export class Participant {
  readonly pool: pg.Pool; // has a connection more than there are lanes: what else uses it, such as a step, takes turns, and waits for 10 s
  private readonly steps = new Map<string, Step>();
  private readonly lanes: Lanes;
  private readonly log: (line: string) => void;
  private database = "";
  private stopping = false;

  constructor(readonly service: string, private readonly settings: Settings = {}) {
    this.lanes = new Lanes(settings.lanes ?? 4);
    this.log = settings.log ?? ((line) => console.error(line));
    // A host that is gone says nothing: then keepalives do, or the time that no statement takes.
    const settled = { max: this.lanes.all + 1, connectionTimeoutMillis: 10000, keepAlive: true, keepAliveInitialDelayMillis: 5000, query_timeout: 45000,
      application_name: `skald/${service}` };
    this.pool = new pg.Pool({ connectionString: settings.databaseUrl ?? process.env["DATABASE_URL"], ...settled });
    this.pool.on("error", () => undefined); // an idle connection was lost: the next one is opened when it is needed
  }

  /** A step that may reject and can be undone. */
  compensatable<Data>(definition: string, step: string, execute: Work<Data>, compensate: Work<Data>, options: Options<Data> = {}): this {
    return this.add(definition, step, "compensatable", options, execute, compensate);
  }

  /** The point of no return: it may reject, and can't be undone. */
  pivot<Data>(definition: string, step: string, execute: Work<Data>, options: Options<Data> = {}): this {
    return this.add(definition, step, "pivot", options, execute);
  }

  /** A step after the pivot: it is tried until it succeeds. */
  retriable<Data>(definition: string, step: string, execute: Work<Data>, options: Options<Data> = {}): this {
    return this.add(definition, step, "retriable", options, execute);
  }

  private add(definition: string, step: string, kind: string, options: Options<any>, execute: Work<any>, compensate?: Work<any>): this {
    const name = `${definition}/${step}`;
    if (this.steps.has(name)) throw new Error(`step ${step} of ${definition} is there twice`);
    const { upcast, ...said } = options;
    this.steps.set(name, { said: { kind, ...said }, execute, compensate, upcast });
    return this;
  }

  private said(): string { return JSON.stringify(Object.fromEntries([...this.steps].map(([name, step]) => [name, step.said]))); }

  /** The database must be this service's. What is wrong with the steps is said here. */
  async connect(): Promise<void> {
    const signatures = process.env["SKALD_SIGNATURES"] ?? "";
    if (!["", "off", "sign"].includes(signatures))
      throw new Error(`SKALD_SIGNATURES=${signatures}: this SDK does not verify signatures: let a C++ service run these steps, or unset it`);
    checkDatabaseUrl(this.settings.databaseUrl);
    this.database = (await this.pool.query("SELECT skald.host($1, $2)::text AS id", [this.service, this.said()])).rows[0].id;
  }

  /** Processes a delivery, which can be acked afterwards; resolves to what happened. Rejects only if the database can't be reached or refuses
   * what Skald itself writes, or if it was to be run again when the process was told to stop, and nothing has happened; or if a failover may lose
   * what has. */
  async process(message: Message): Promise<string> {
    for (let contended = 0, lost = 0; ; ) {
      const held: Held = {};
      try {
        return await this.inLane(message, held, (client) => this.deliver(client, message, held));
      } catch (thrown) {
        const met: any = withText(thrown), error = explained(held.lost && /is not queryable$/.test(met?.message) ? held.lost : met, held, "step");
        if (error instanceof InDoubt) throw error;
        const isPassing = (contention.has(error?.code) && ++contended < contendedMax)
          || (held.lost && ++lost < lostMax && Date.now() - held.since! < idleMax);
        if (held.taken && !isPassing) return await this.end(message, held, error);
        if (!isPassing) throw error;
        await sleep(Math.random() * 5 * 2 ** Math.min(contended + lost, 5));
      }
    }
  }

  private async end(message: Message, { taken, over }: Held, error: any): Promise<string> {
    const said = (call: string, value: unknown): Promise<string> =>
      this.inLane(message, {}, async (client) => (await client.query(`SELECT skald.${call} AS event`, [taken, message.body, value])).rows[0].event);
    const why = text(reason(error));
    const made =
      error instanceof Reject ? said("reject($1, $2, $3)", why)
      : error instanceof Snooze ? said("snooze($1, $2, $3 * interval '1 millisecond')", error.milliseconds)
      : error instanceof Malformed ? said("give_up($1, $2, 'malformed', $3)", why)
      : over && error?.code === "2D000" ? said("give_up($1, $2, 'transaction_ended', $3)", why)
      : said("fail($1, $2, $3)", `${error?.name ?? "error"}: ${why}`);
    const event = await made, isFault = ![Reject, Snooze, Malformed].some((one) => error instanceof one);
    if (isFault || event.endsWith(".parked")) this.log(`${event} of ${line(message.messageId)}: ${isFault && error?.stack ? lines(error) : line(why)}`);
    return event;
  }

  private inLane(message: Message, held: Held, work: (client: pg.PoolClient) => Promise<string>): Promise<string> {
    return this.lanes.during(line(message.messageId), () => this.inTransaction(held, work));
  }

  private async inTransaction(held: Held, work: (client: pg.PoolClient) => Promise<string>): Promise<string> {
    const client = await this.pool.connect();
    const lose = (why: unknown): unknown => (held.lost ||= !held.left && why); // its queries fail too, and say only that
    client.on("error", lose);
    held.since = Date.now();
    try {
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
      const event = await work(client);
      await commit(client, "step");
      return event;
    } catch (error) {
      held.ended = true;
      if (!held.left) await client.query("ROLLBACK").catch(lose);
      held.lost ||= (error as any)?.code === "25006"; // the server may have become a standby
      throw error;
    } finally {
      endListening(held);
      client.removeListener("error", lose).release(Boolean(held.lost || held.left));
    }
  }

  private async deliver(client: pg.PoolClient, message: Message, held: Held): Promise<string> {
    if (this.stopping) throw new Stopping(); // it has waited for a lane
    const { rows: [row] } = await client.query(
      `SELECT verdict, event, why, scope, key, definition, version, step, is_compensation, attempt, taken::text
         FROM skald.take($1, $2, $3, $4, $5, $6, $7)`,
      [text(message.type), JSON.stringify(headersOf(message.headers)), message.body, this.said(), text(message.messageId ?? ""),
        text(message.contentType ?? "application/json"), message.givenUp ?? false]);
    if (row.verdict !== "run") {
      if (row.event.endsWith(".parked")) this.log(line(`${row.event} of ${message.messageId}: ${row.why}`));
      return row.event;
    }
    const taken: string = (held.taken = row.taken);
    const step = this.steps.get(`${row.definition}/${row.step}`)!;
    const ctx: Context = {
      client: lent(client, held, `the step of ${line(message.messageId)} has ended: what it does with \`ctx\` comes before that`),
      scope: row.scope, saga: row.key, definition: row.definition, version: row.version, step: row.step, attempt: row.attempt,
      key: `${row.key}:${row.step}${row.is_compensation ? ".compensate" : ""}`,
      sql: (query, values) => quiet((async () => ctx.client.query(query, values))(), held),
      publish: (destination, type, body, ifUnrouted = "keep") => quiet((async () => {
        await ctx.sql("SELECT skald.publish($1, $2, $3, $4, $5)", [taken, destination, type, dump(body, "the body of publish()"), ifUnrouted]);
      })(), held),
    };
    const received = message.body.toString("utf8").replace(/^\uFEFF/, "");
    const newer = step.upcast && row.version < Number(step.said["version"] ?? 1) ? step.said["version"] : null;
    const read = (): unknown => (newer === null ? JSON.parse(received) : step.upcast!(JSON.parse(received), row.version));
    const given = read(), work = row.is_compensation ? step.compensate! : step.execute;
    const data = (await ended(client, held, () => work(ctx, given))) ?? given;
    // What has not changed goes on as it came, to the byte and the version.
    const changed = !isDeepStrictEqual(data, read());
    if (changed) refuseLostDigits(received);
    const next = changed ? [dump(data, "what the step returns"), newer] : [message.body, null];
    await quiet(client.query("SELECT skald.done($1, $2, $3)", [taken, ...next]), held);
    if (held.unsent) throw held.unsent;
    return "step.completed";
  }

  /** Processes what comes until SIGTERM or SIGINT. Connections that are lost are opened again. */
  async run(): Promise<void> {
    const url = amqpUrl(this.settings.amqpUrl);
    const signals = ["SIGTERM", "SIGINT"] as const;
    let told = (): void => undefined;
    const stopped = new Promise<void>((resolve) => (told = resolve));
    const stop = (name: NodeJS.Signals): void => {
      if (this.stopping) process.exit(128 + constants.signals[name]); // a step may hang, and PID 1 ignores what has no listener
      this.log(`${name}: ${this.service} waits for the steps under way; a second signal ends it at once`);
      this.stopping = true;
      told();
    };
    for (const each of signals) process.on(each, stop);
    process.on("uncaughtExceptionMonitor", () => {
      const { busy } = this.lanes;
      if (busy.length) this.log(`nothing has caught an error. If that ends the process, what is under way comes again: ${busy.join(", ")}`);
    });
    try {
      await this.connect();
      while (!this.stopping) {
        await this.consume(url, stopped).catch(async (error) => {
          if (error instanceof WrongDatabase) throw error;
          this.log(`trying again with new connections: ${reason(error)}`);
          await sleep(Math.random() * 2000);
        });
      }
    } finally {
      await this.pool.end();
      for (const each of signals) process.off(each, stop);
    }
  }

  /** False: it is over with this broker. Whatever else fails, it is kept: given back, all that is not acked counts once more, of 50 times. */
  private async processKept(message: Message, isOver: () => boolean): Promise<boolean> {
    for (let tries = 0; !isOver(); ++tries) { // one is about a second
      const failed = await this.process(message).then(() => undefined, (error) => error ?? "?");
      if (failed === undefined) return true;
      if (failed instanceof Stopping) return false;
      if (tries % 100 === 0) this.log(line(`${message.messageId} is kept until the database takes it: ${reason(failed)}`));
      await sleep(Math.random() * 2000);
    }
    return false;
  }

  private async consume(url: string, stopped: Promise<void>): Promise<void> {
    const broker = await connected(url);
    const under = new Set<Promise<void>>(), queue = `skald.${this.service}`;
    let isOver = false;
    try {
      const failed = new Promise<never>((_, reject) => {
        let start = (): void => undefined;
        const started = new Promise<void>((resolve) => (start = resolve));
        broker.on("error", reject);
        broker.on("close", () => reject(new Error("the broker has closed the connection")));
        const take = (channel: amqp.Channel, givenUp: boolean) => (m: amqp.ConsumeMessage | null): void => {
          if (m === null) return reject(new Error("the broker has cancelled the consumer"));
          if (this.stopping) return; // not acked: it comes again
          const { type, messageId, contentType, headers } = m.properties;
          // What a policy or another client has put there is processed; once, because that queue counts no deliveries.
          const isLimit = m.fields.redelivered || headers?.["x-first-death-reason"] === "delivery_limit";
          const message = { type: type ?? "", headers: headers ?? {}, body: m.content, messageId, contentType, givenUp: givenUp && isLimit };
          const one: Promise<void> = this.processKept(message, () => isOver).then((done) => done && (channel.ack(m), givenUp || start())).catch(reject)
            .then(() => void under.delete(one));
          under.add(one);
        };
        broker.createChannel().then(async (channel) => {
          channel.on("error", () => undefined); // what it refuses, it says better
          await expectQueues(channel, this.service, this.database, this.settings.declare !== false);
          channel.on("error", reject);
          await channel.prefetch(1);
          await channel.consume(`${queue}.parked`, take(channel, true));
          await channel.consume(queue, take(channel, false));
          this.log(`${this.service} is ready`);
          // After a crash, the delivery that caused it is first in the queue. Take it alone, so that no other is counted with it. After 10 s take
          // more: it may only wait for a lock.
          await Promise.race([started, sleep(10000, undefined, { ref: false })]);
          if (isOver) return;
          await channel.prefetch(this.lanes.all * 2 - 1);
          await channel.consume(queue, take(channel, false));
        }).catch(reject);
      });
      failed.catch(() => undefined);
      await Promise.race([stopped, failed]);
    } finally {
      isOver = true;
      await Promise.allSettled(under);
      await leave(broker);
    }
  }
}
