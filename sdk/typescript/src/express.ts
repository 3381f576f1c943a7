// Requests that are sent twice and take effect once, for Express: docs/http-languages.md. A handler runs in the transaction that has claimed its
// Idempotency-Key; its response is stored with what it has written, and is given to whoever sends the same request again.
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { bodyOf, parse } from "./body.js";
import { commit, contention, endListening, explained, InDoubt, lent, quiet, type Loan } from "./client.js";
import { ignore, isClosed, keep, type Kept } from "./kept.js";
import { onRaised, watch, type Next, type Raised } from "./layers.js";
import { LeftOpen, lookForLeft } from "./left.js";
import { away, cutOff, endedItself, full, inTheWay, problem, send, tooLarge, tooSlow, unknown, type Made } from "./response.js";
import { dump, line, lines, reason } from "./text.js";
import { checkDatabaseUrl } from "./urls.js";

/** What a handler can use until it has responded, as `req.skald`. */
export interface RequestContext {
  /** In Skald's transaction: do not end it. */
  readonly client: pg.PoolClient;
  readonly scope: string;
  readonly key: string;
  /** Stores the response although its status is 401, 403, 408, 409, 425 or 429. */
  isFinal?: boolean;
  /** Sends the response and stores nothing: the data did not fit, and the key may be used again. */
  leavesNothing?: boolean;
  sql<Row extends pg.QueryResultRow = pg.QueryResultRow>(query: string, values?: unknown[]): Promise<pg.QueryResult<Row>>;
  /** Starts a saga under the request's key. `itinerary`: "create-order@orders=compensatable arrange-shipping@shipping=pivot". */
  start(definition: string, itinerary: string, data: unknown, more?: StartOptions): Promise<void>;
}

export interface StartOptions { version?: number; deadlineSeconds?: number; attributes?: Record<string, string> }

declare global {
  namespace Express { // where @types/express, and what others add to its requests, are looked for
    interface Request {
      /** Of a guarded request. */
      skald?: RequestContext;
      /** The bytes of a guarded request. */
      rawBody?: Buffer;
    }
  }
}

export type GuardedRequest = IncomingMessage & Express.Request & { originalUrl?: string; body?: unknown; [onRaised]?: Raised };

export interface GuardSettings {
  databaseUrl?: string; // default: DATABASE_URL
  /** How many requests use the database at a time. Default: 8. */
  connections?: number;
  /** The largest body. Default: 256 KiB. */
  bodyMax?: number;
  /** How long a handler may take to respond, also without a statement. Default: 30,000 ms. */
  handlerMs?: number;
  /** Whose request it is (docs/http.md). Default: ''. What it throws goes to Express: an error with `status` 401 is a 401. */
  scope?: (req: GuardedRequest) => string | Promise<string>;
  /** Which requests need a key. Default: all but GET, HEAD and OPTIONS. */
  guarded?: (req: GuardedRequest) => boolean;
  /** Takes why the guard has made a 500 of a response, or could not ask the database. Default: console.error. */
  log?: (line: string) => void;
}

export interface Guard {
  (req: GuardedRequest, res: ServerResponse, next: (error?: unknown) => void): void;
  close(): Promise<void>;
}

interface State extends Loan { raised?: unknown; asked?: boolean; cut?: unknown }
type Failed = (why: unknown, status?: number) => void;
interface Claimed { client: pg.PoolClient; taken: string; context: RequestContext; state: State }

const triesMax = 3, waitMax = 30;
const elsewhere = new Set([307, 308]); // the same request, with the same key, to another target
const passing = new Set([401, 403, 408, 409, 425, 429]); // a retry may get another response

// What a handler has left in its session (docs/session.md). What follows a COMMIT or ROLLBACK of its own must write nothing.
const reset = `RESET ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; CLOSE ALL; UNLISTEN *; DISCARD TEMP; SELECT pg_advisory_unlock_all();
  SET default_transaction_read_only = on`;

/** Middleware for Express, in the place of what parses bodies: it reads the body, whose bytes tell a request from another, and parses JSON. */
export function guard(settings: GuardSettings = {}): Guard {
  const verify = (client: pg.PoolClient, done: (error?: Error) => void): void => void client.query(reset).then(() => done(), done);
  const handlerMs = settings.handlerMs ?? 30000;
  if (!(handlerMs > 0 && handlerMs < 2 ** 31 - 1)) throw new RangeError(`handlerMs is a number of milliseconds up to 24 days, and not ${handlerMs}`);
  checkDatabaseUrl(settings.databaseUrl);
  const pool = new pg.Pool({ verify, connectionString: settings.databaseUrl ?? process.env["DATABASE_URL"], max: settings.connections ?? 8,
    connectionTimeoutMillis: 10000, keepAlive: true, keepAliveInitialDelayMillis: 5000, query_timeout: 45000 });
  pool.on("error", () => undefined); // an idle connection was lost: the next one is opened when it is needed
  const guarded = settings.guarded ?? ((req) => !["GET", "HEAD", "OPTIONS"].includes(req.method ?? ""));
  const made = (req: GuardedRequest, res: ServerResponse, next: (error?: unknown) => void): void => {
    if (guarded(req)) serve(pool, settings, req, res, next).catch(next);
    else next();
  };
  return Object.assign(made, { close: () => pool.end() });
}

async function serve(pool: pg.Pool, settings: GuardSettings, req: GuardedRequest, res: ServerResponse, next: Next): Promise<void> {
  if ("skald" in req)
    throw new Error("the request is guarded already: have one guard() on a request's way, and leave to another by `guarded` what that one has");
  watch(req);
  const scope: unknown = settings.scope ? await settings.scope(req) : "";
  if (typeof scope !== "string" || scope.includes("\0"))
    throw new TypeError(`scope() gives whose request it is as a string without NUL, or throws an error with status 401: it gave ${typeof scope}`);
  if (req.readableDidRead) // its bytes tell it from another under the key
    throw new Error("the body was read before the guard: put guard() in front of what parses bodies, or leave the request out by `guarded`");
  // Without a key it is refused.
  const body = req.headers["idempotency-key"] === undefined ? Buffer.alloc(0) : await bodyOf(req, settings.bodyMax ?? 262144);
  if (!body) return send(res, tooLarge());
  const prefers = /(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)/i.exec(String(req.headers["prefer"] ?? ""));
  const wait = Math.min(Number(prefers?.[1] ?? 0), waitMax);
  const log = settings.log ?? ((line) => console.error(line)), asked = line(`${req.method} ${req.originalUrl}`);
  const { handlerMs = 30000 } = settings;
  const claim = (lost: (why: unknown) => void): Promise<Claimed | Made> => claimed(pool, req, body, scope, handlerMs, lost);
  const logged = (why: unknown): void => log(`${asked}: 503: ${line(reason(why))}`);
  let met = await claim(logged);
  if ("status" in met && met.problem === "in-flight" && prefers) res.setHeader("Preference-Applied", `wait=${wait}`);
  for (let pause = 50, until = Date.now() + wait * 1000; "status" in met && met.problem === "in-flight" && Date.now() < until; ) {
    await sleep(pause);
    pause = Math.min(pause * 2, 2000);
    met = await claim(logged);
  }
  if ("status" in met) return send(res, met);
  const { key } = met.context, failed: Failed = (why, status = 500) =>
    log(`${asked}, key ${line(key)}: ${status}: ${status === 500 ? lines(why) : line(reason(why))}`);
  const { state } = met, kept = keep(res, state, (why) => ((state.cut = why), cutOff()));
  let answer: Made | undefined;
  try {
    answer = await handled(met, req, res, kept, next, body, handlerMs);
  } catch (error) {
    await rolledBack(met);
    kept.giveBack();
    throw error;
  }
  if (!answer) {
    await lookForLeft(met.client, state, true); // a statement may still be under way
    await rolledBack(met);
  }
  const sent = answer ? await finished(met, answer, failed, () => claim(() => undefined)) : tooSlow();
  kept.giveBack();
  if (state.raised && state.cut) res.setHeader("Connection", "close"); // which Express ends, once it is told of the error
  try {
    send(res, sent);
  } catch (error) { // of middleware: no response is on its way, for which Express would have to wait
    delete req[onRaised];
    throw error;
  }
  if (!answer) ignore(res);
}

/** The request's key, claimed in a transaction that is open; or the response to give. */
async function claimed(
  pool: pg.Pool, req: GuardedRequest, body: Buffer, scope: string, most: number, failed: (why: unknown) => void): Promise<Claimed | Made> {
  const keys = req.rawHeaders.filter((_, i) => i % 2 === 1 && req.rawHeaders[i - 1]!.toLowerCase() === "idempotency-key");
  const target = Buffer.from(req.originalUrl ?? req.url ?? "/", "latin1");
  let isAway = false, isInDoubt = false, why: unknown;
  for (let tries = 0; tries < triesMax; ++tries) {
    const state: Claimed["state"] = {};
    let client: pg.PoolClient | undefined;
    try {
      client = await pool.connect();
      client.on("error", (why) => (state.left || (state.lost ??= why)));
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
      const { rows: [row] } = await client.query(`SELECT *, taken::text AS token, headers::text AS pairs,
        set_config('default_transaction_read_only', NULL, true) AS fenced, set_config('idle_in_transaction_session_timeout', $6, true)
        FROM skald.take_request($1, $2, $3, $4, $5)`, [scope, keys, req.method, target, body, String(Math.max(30000, Math.ceil(most)))]);
      // An operator has made the database read-only. Our own READ WRITE would override that.
      if (row.fenced === "on") throw (state.lost = new Error("the database has become read-only"));
      if (row.verdict === "run") return { client, taken: row.token, state, context: contextOf(client, scope, row.key, row.token, state) };
      await commit(client, "guard");
      release(client, false);
      return { status: row.status_code, type: row.content_type, headers: JSON.parse(row.pairs), body: row.response, problem: row.problem };
    } catch (error: any) {
      if (!client && error.message === "timeout exceeded when trying to connect") return isInDoubt ? unknown() : full(); // it has waited for a client
      isInDoubt = (why = error) instanceof InDoubt;
      if (client) await client.query("ROLLBACK").catch((why) => (state.lost ??= why));
      if (client) release(client, Boolean(state.lost));
      isAway = !contention.has(error.code);
      if (isAway && client && !state.lost && !isInDoubt) throw error; // its own statements were refused
    }
  }
  if (isAway && !isInDoubt) failed(why);
  return isInDoubt ? unknown() : isAway ? away() : inTheWay();
}

function release(client: pg.PoolClient, lost: boolean): void {
  const back = (isLost: boolean): void => {
    client.removeAllListeners("error").on("error", () => undefined);
    client.release(isLost);
  };
  if (lost) back(true);
  else client.query(reset).then(() => back(false), () => back(true));
}

function contextOf(client: pg.PoolClient, scope: string, key: string, taken: string, state: State): RequestContext {
  const open = lent(client, state, "the request has been responded to: what a handler does with req.skald comes before its response");
  const sql = (query: string, values?: unknown[]): Promise<pg.QueryResult<any>> => quiet((async () => open.query(query, values))(), state);
  return { client: open, scope, key, sql, start: (definition, itinerary, data, more = {}) => quiet((async () => {
    const bytes = dump(data, "the data of start()");
    await sql("SELECT skald.start_requested($1, $2, $3, $4, $5, $6 * interval '1 second', $7)", [taken, definition, itinerary,
      bytes, more.version ?? 1, more.deadlineSeconds ?? null, more.attributes ? JSON.stringify(more.attributes) : null]);
  })(), state) };
}

/** What the handlers after this one respond, if they do in time. */
async function handled(
  { context, state }: Claimed, req: GuardedRequest, res: ServerResponse, kept: Kept, next: Next, body: Buffer, most: number): Promise<Made | undefined> {
  Object.assign(req, { rawBody: body, body, _body: true });
  Object.defineProperty(req, "skald", { configurable: true, enumerable: true, get: () => ((state.asked = true), context) });
  const refusal = parse(req, body);
  if (refusal) return refusal;
  let timer: NodeJS.Timeout | undefined, isTooSlow = false;
  req[onRaised] = (error, then) => {
    if (isTooSlow) return; // Express would end the connection, on which the client may have sent it again
    if (!state.ended) state.raised = error;
    if (res.headersSent && !state.ended) res.destroy(error as Error); // who handles it could only add to what there is
    if (!state.ended || isClosed(res)) then(error);
    else res.once("close", () => then(error)); // the response comes first
  };
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => {
    isTooSlow = !state.ended;
    state.ended = true;
    resolve(undefined);
  }, most)));
  state.unheard = (error) => state.ended || next(error); // behind a response, Express would end the connection
  next();
  return Promise.race([kept.made, late]).finally(() => clearTimeout(timer));
}

/** False if it could not be: its connection is lost then. */
async function rolledBack(by: Claimed): Promise<boolean> {
  const done = by.state.left || (await by.client.query("ROLLBACK").then(() => true, (why) => (by.state.lost ??= why, false)));
  endListening(by.state);
  release(by.client, Boolean(by.state.left || by.state.lost));
  return done;
}

async function finished(by: Claimed, answer: Made, failed: Failed, again: () => Promise<Claimed | Made>): Promise<Made> {
  const { context, state } = by;
  await lookForLeft(by.client, state, Boolean(state.raised));
  const lost = (made: Made, why: unknown): Made => (failed(why, 503), made);
  const { status } = answer, isNobodys = !state.asked && status >= 400; // of no route, or of middleware: tomorrow it may be another
  if (isNobodys || status >= 500 || state.raised || context.leavesNothing || elsewhere.has(status) || (passing.has(status) && !context.isFinal)) {
    const isOurs = state.left ||
      await by.client.query("SELECT skald.assert_requested($1)", [by.taken]).then(() => true, (error) => error.code !== "2D000");
    if (!(await rolledBack(by)) || state.lost) return lost(away(), state.lost);
    if (!isOurs) return failed("the handler has ended its own transaction"), endedItself();
    const met = state.failed ?? (state.raised === state.met ? state.met : undefined); // undone by a savepoint and thrown again, it is the reason too
    if (contention.has(met?.code ?? "") && (answer.status >= 500 || state.raised)) return inTheWay();
    if (state.cut !== undefined) failed(state.cut);
    return answer;
  }
  let committing = false;
  try {
    if (state.left) throw new LeftOpen();
    await by.client.query("SELECT skald.respond($1, $2, $3, $4, $5)",
      [by.taken, answer.status, answer.type, JSON.stringify(answer.headers), answer.body]);
    if (state.unsent) throw state.unsent;
    committing = true;
    await commit(by.client, "handler");
    endListening(state);
    release(by.client, false);
    return answer;
  } catch (thrown) {
    const error = explained(thrown, state, "handler");
    const isOpen = await rolledBack(by);
    if (isOpen && !state.lost && !(error instanceof InDoubt)) {
      if (contention.has(error.code)) return inTheWay();
      failed(error);
      return error.code === "2D000" ? endedItself()
        : problem("about:blank", 500, "Internal Server Error", "the request could not be served; it had no effect");
    }
    if (!committing) return lost(away(), state.lost ?? error);
    // Whether it was committed is what the guard knows. If it was not, the handler can't be run again here: the client sends it again.
    const met = await again().catch(unknown);
    if (!("status" in met)) return (await rolledBack(met)), lost(away(), error);
    if (met.status === 409 || met.status === 503) return lost(unknown(), error);
    return { ...met, sent: answer.sent, headers: met.headers.filter(([name]) => name !== "Idempotency-Replayed") };
  }
}
