// Requests that are sent twice and take effect once, for Express: docs/http-languages.md. A handler runs in the transaction that has claimed its
// Idempotency-Key; its response is stored with what it has written, and is given to whoever sends the same request again.
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** What a handler can use while it runs, as `req.skald`. It must not be kept. */
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

export type GuardedRequest = IncomingMessage & { originalUrl?: string; body?: unknown; rawBody?: Buffer; skald?: RequestContext };

export interface GuardSettings {
  databaseUrl?: string; // default: DATABASE_URL
  /** How many requests use the database at a time. Default: 8. */
  connections?: number;
  /** The largest body. Default: 256 KiB. */
  bodyMax?: number;
  /** Whose request it is (docs/http.md). Default: ''. */
  scope?: (req: GuardedRequest) => string;
  /** Which requests need a key. Default: all but GET, HEAD and OPTIONS. */
  guarded?: (req: GuardedRequest) => boolean;
}

export interface Guard {
  (req: GuardedRequest, res: ServerResponse, next: (error?: unknown) => void): void;
  close(): Promise<void>;
}

interface Made { status: number; type: string; headers: [string, string][]; body: Buffer; problem?: string }
interface Claimed { client: pg.PoolClient; taken: string; context: RequestContext; state: { contended?: boolean; lost?: boolean } }

const triesMax = 3, waitMax = 30;
const passing = new Set([401, 403, 408, 409, 425, 429]); // a retry may get another response
const contention = new Set(["40001", "40P01", "55P03"]);
const own = new Set(["connection", "content-length", "content-type", "date", "keep-alive", "transfer-encoding", "trailer", "upgrade"]);

function problem(name: string, status: number, title: string, detail: string): Made {
  const body = Buffer.from(JSON.stringify({ type: name === "about:blank" ? name : `/problems/${name}`, title, status, detail }));
  return { status, type: "application/problem+json", headers: status === 503 ? [["Retry-After", "1"]] : [], body, problem: name };
}
const away = (): Made => problem("unavailable", 503, "The database is away", "the database is away; send the request again with the same key");
const unknown = (): Made => problem("outcome-unknown", 503, "It is not known whether the request took effect",
  "it is not known whether the request took effect; send it again with the same key to learn it");
const inTheWay = (): Made => problem("about:blank", 503, "Service Unavailable",
  "others had the same rows each time; nothing was done, send the request again");

/** Middleware for Express, before what parses bodies: it reads the body, whose bytes tell a request from another, and parses JSON. */
export function guard(settings: GuardSettings = {}): Guard {
  const pool = new pg.Pool({ connectionString: settings.databaseUrl ?? process.env["DATABASE_URL"], max: settings.connections ?? 8,
    connectionTimeoutMillis: 10000, lock_timeout: 5000, statement_timeout: 30000, idle_in_transaction_session_timeout: 30000 });
  pool.on("error", () => undefined); // an idle connection was lost: the next one is opened when it is needed
  const guarded = settings.guarded ?? ((req) => !["GET", "HEAD", "OPTIONS"].includes(req.method ?? ""));
  const made = (req: GuardedRequest, res: ServerResponse, next: (error?: unknown) => void): void => {
    if (guarded(req)) serve(pool, settings, req, res, next).catch(next);
    else next();
  };
  return Object.assign(made, { close: () => pool.end() });
}

async function serve(pool: pg.Pool, settings: GuardSettings, req: GuardedRequest, res: ServerResponse, next: () => void): Promise<void> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req) {
    if ((size += chunk.length) > (settings.bodyMax ?? 262144))
      return send(res, problem("about:blank", 413, "Content Too Large", "the body is larger than this server takes"));
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks), scope = settings.scope?.(req) ?? "";
  const prefers = /(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)/i.exec(String(req.headers["prefer"] ?? ""));
  const wait = Math.min(Number(prefers?.[1] ?? 0), waitMax);
  let met = await claimed(pool, req, body, scope);
  for (let pause = 50, until = Date.now() + wait * 1000; "status" in met && met.problem === "in-flight" && Date.now() < until; ) {
    await sleep(pause);
    pause = Math.min(pause * 2, 2000);
    met = await claimed(pool, req, body, scope);
  }
  if ("status" in met) {
    if (met.problem === "in-flight" && prefers) met.headers.push(["Preference-Applied", `wait=${wait}`]);
    return send(res, met);
  }
  let answer: Made;
  try {
    answer = await handled(met, req, res, next, body);
  } catch (error) {
    await ended(met, "ROLLBACK");
    throw error;
  }
  send(res, await finished(pool, met, answer, () => claimed(pool, req, body, scope)));
}

/** The request's key, claimed in a transaction that is open; or the response to give. */
async function claimed(pool: pg.Pool, req: GuardedRequest, body: Buffer, scope: string): Promise<Claimed | Made> {
  const keys = req.rawHeaders.filter((_, i) => i % 2 === 1 && req.rawHeaders[i - 1]!.toLowerCase() === "idempotency-key");
  const target = Buffer.from(req.originalUrl ?? req.url ?? "/", "latin1");
  let isAway = false;
  for (let tries = 0; tries < triesMax; ++tries) {
    const state: Claimed["state"] = {};
    let client: pg.PoolClient | undefined;
    try {
      client = await pool.connect();
      client.on("error", () => (state.lost = true));
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
      const { rows: [row] } = await client.query("SELECT *, taken::text AS token FROM skald.take_request($1, $2, $3, $4, $5)",
        [scope, keys, req.method, target, body]);
      if (row.verdict === "run") return { client, taken: row.token, state, context: contextOf(client, scope, row.key, row.token, state) };
      await client.query("COMMIT");
      release(client, false);
      return { status: row.status_code, type: row.content_type, headers: row.headers, body: row.response, problem: row.problem };
    } catch (error: any) {
      if (client) await client.query("ROLLBACK").catch(() => (state.lost = true));
      if (client) release(client, state.lost ?? false);
      isAway = !contention.has(error.code);
      if (isAway && client && !state.lost) throw error; // its own statements were refused
    }
  }
  return isAway ? away() : inTheWay();
}

function release(client: pg.PoolClient, lost: boolean): void {
  client.removeAllListeners("error");
  client.release(lost);
}

function contextOf(client: pg.PoolClient, scope: string, key: string, taken: string, state: Claimed["state"]): RequestContext {
  const sql = async (query: string, values?: unknown[]): Promise<pg.QueryResult<any>> =>
    client.query(query, values).catch((error) => {
      state.contended ||= contention.has(error.code);
      throw error;
    });
  return { client, scope, key, sql, start: async (definition, itinerary, data, more = {}) => {
    await sql("SELECT skald.start_requested($1, $2, $3, $4, $5, $6 * interval '1 second', $7)", [taken, definition, itinerary,
      Buffer.from(JSON.stringify(data)), more.version ?? 1, more.deadlineSeconds ?? null, more.attributes ? JSON.stringify(more.attributes) : null]);
  } };
}

/** What the handlers after this one respond. They write to `res`, which keeps it. */
async function handled(by: Claimed, req: GuardedRequest, res: ServerResponse, next: () => void, body: Buffer): Promise<Made> {
  Object.assign(req, { skald: by.context, rawBody: body, body, _body: true });
  if (/^application\/(?:[\w.-]+\+)?json\b/i.test(req.headers["content-type"] ?? "")) {
    try {
      req.body = JSON.parse(body.toString("utf8"));
    } catch (error: any) {
      by.context.leavesNothing = true;
      return problem("body", 400, "The body is not what this resource takes", error.message);
    }
  }
  const sent: Buffer[] = [], mine = { writeHead: res.writeHead, write: res.write, end: res.end, flushHeaders: res.flushHeaders };
  const keep = (chunk: unknown, encoding: unknown): void => {
    if (typeof chunk === "string") sent.push(Buffer.from(chunk, typeof encoding === "string" ? encoding as BufferEncoding : "utf8"));
    else if (chunk instanceof Uint8Array) sent.push(Buffer.from(chunk));
  };
  const called = (...values: unknown[]): void => values.forEach((value) => typeof value === "function" && value());
  await new Promise<void>((resolve) => {
    Object.assign(res, {
      flushHeaders: () => undefined,
      writeHead: (status: number, ...more: unknown[]) => {
        res.statusCode = status;
        for (const [name, value] of Object.entries(more.find((one) => typeof one === "object") ?? {})) res.setHeader(name, value as string);
        return res;
      },
      write: (chunk: unknown, encoding?: unknown, done?: unknown) => (keep(chunk, encoding), called(encoding, done), true),
      end: (chunk?: unknown, encoding?: unknown, done?: unknown) => (keep(chunk, encoding), called(chunk, encoding, done), resolve(), res),
    });
    next();
  });
  Object.assign(res, mine);
  const headers = res.getHeaderNames().filter((name) => !own.has(name))
    .flatMap((name) => [res.getHeader(name)!].flat().map((value): [string, string] => [name, String(value)]));
  return { status: res.statusCode, type: String(res.getHeader("content-type") ?? ""), headers, body: Buffer.concat(sent) };
}

/** False if the transaction did not end so: its connection is lost then. */
async function ended(by: Claimed, how: "COMMIT" | "ROLLBACK"): Promise<boolean> {
  const done = await by.client.query(how).then(() => true, () => false);
  release(by.client, by.state.lost ?? (how === "ROLLBACK" && !done));
  return done;
}

async function finished(pool: pg.Pool, by: Claimed, answer: Made, again: () => Promise<Claimed | Made>): Promise<Made> {
  const { context, state } = by;
  if (answer.status >= 500 || context.leavesNothing || (passing.has(answer.status) && !context.isFinal)) {
    if (!(await ended(by, "ROLLBACK")) || state.lost) return away();
    return state.contended && answer.status >= 500 ? inTheWay() : answer;
  }
  let committing = false;
  try {
    await by.client.query("SELECT skald.respond($1, $2, $3, $4, $5)",
      [by.taken, answer.status, answer.type, JSON.stringify(answer.headers), answer.body]);
    committing = true;
    await by.client.query("COMMIT");
    release(by.client, false);
    return answer;
  } catch (error: any) {
    const isOpen = await ended(by, "ROLLBACK");
    if (isOpen && !state.lost) {
      if (contention.has(error.code)) return inTheWay();
      return problem("about:blank", 500, "Internal Server Error", error.code === "2D000"
        ? "the service ended its own transaction; part of the request may have taken effect" : "the request could not be served; it had no effect");
    }
    if (!committing) return away();
    // Whether it was committed is what the guard knows. If it was not, the handler can't be run again here: the client sends it again.
    const met = await again().catch(unknown);
    if (!("status" in met)) return (await ended(met, "ROLLBACK")), away();
    return met.status === 409 || met.status === 503 ? unknown() : { ...met, headers: met.headers.filter(([name]) => name !== "Idempotency-Replayed") };
  }
}

function send(res: ServerResponse, made: Made): void {
  for (const name of res.getHeaderNames()) res.removeHeader(name);
  const headers = new Map<string, [string, string[]]>();
  for (const [name, value] of made.headers) {
    const at = headers.get(name.toLowerCase());
    if (at) at[1].push(value);
    else headers.set(name.toLowerCase(), [name, [value]]);
  }
  for (const [name, values] of headers.values()) res.setHeader(name, values.length === 1 ? values[0]! : values);
  if (made.type) res.setHeader("Content-Type", made.type);
  res.statusCode = made.status;
  if (![204, 304].includes(made.status)) res.setHeader("Content-Length", made.body.length);
  res.end(made.body);
}
