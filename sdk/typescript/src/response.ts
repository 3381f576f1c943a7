// A response that is kept in `res` until the transaction behind it has ended: express.ts.
import type { ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { Loan } from "./client.js";

export interface Made { status: number; type: string; headers: [string, string][]; body: Buffer; problem?: string }
export interface Kept {
  made: Promise<Made>;
  /** Makes `res` what it was. */
  giveBack(): void;
}

const own = new Set(["connection", "content-length", "content-type", "date", "keep-alive", "transfer-encoding", "trailer", "upgrade"]);
const heads = ["setHeader", "setHeaders", "appendHeader", "removeHeader", "writeHead"];
const replaced = [...heads, "flushHeaders", "write", "end", "destroy", "headersSent"];
/** Node before 18.13 has no `closed`. */
export const isClosed = (res: ServerResponse): boolean => res.closed || res.destroyed;
const called = (values: unknown[]): void => values.forEach((value) => typeof value === "function" && value());
const valuesOf = (value?: number | string | string[]): string[] => (value === undefined ? [] : [value].flat().map(String));

/** Keeps what is written to `res`; `cut` is for what is destroyed, or was streamed to a client that has gone and will have no end. What
 * middleware has put there before, functions and headers, is its own: neither used nor kept. */
export function keep(res: ServerResponse, state: Loan, cut: (why: unknown) => Made): Kept {
  const functions = replaced.map((name) => [name, Object.getOwnPropertyDescriptor(res, name)] as const);
  const before = new Map(res.getHeaderNames().map((name) => [name, valuesOf(res.getHeader(name))]));
  const sent: Buffer[] = [];
  let hasHead = false;
  const add = (chunk: unknown, encoding: unknown): void => {
    if (!hasHead) res.writeHead(res.statusCode); // which tells middleware between the guard and the handler
    if (typeof chunk === "string") sent.push(Buffer.from(chunk, typeof encoding === "string" ? encoding as BufferEncoding : "utf8"));
    else if (chunk instanceof Uint8Array) sent.push(Buffer.from(chunk));
  };
  const { destroy } = res;
  let over = (_: Made): void => undefined;
  const made = new Promise<Made>((resolve) => (over = (one) => ((state.ended = true), resolve(one), close(res))));
  const letGo = (by: Readable): void => {
    if (!state.ended && isClosed(res) && !by.readableEnded) over(cut("the client has gone, and what was streamed to it ends there"));
  };
  const piped = (by: Readable): void => void by.once("close", () => letGo(by)); // by pipeline(), without a word to `res`
  res.on("pipe", piped).on("unpipe", letGo);
  Object.assign(res, {
    destroy: (error?: Error) => {
      if (state.ended) return destroy.call(res, error);
      over(cut(error ?? "the handler has destroyed its response"));
      return res;
    },
    flushHeaders: () => undefined,
    writeHead: (status: number, ...more: unknown[]) => {
      hasHead = true;
      res.statusCode = status;
      const given = pairsOf(more.find((one) => typeof one === "object" && one !== null) ?? {});
      given.forEach(([header]) => res.removeHeader(header));
      given.forEach(([header, value]) => res.appendHeader(header, value));
      return res;
    },
    write: (chunk: unknown, encoding?: unknown, done?: unknown) => {
      if (!state.ended) add(chunk, encoding);
      called([encoding, done]);
      return true;
    },
    end: (chunk?: unknown, encoding?: unknown, done?: unknown) => {
      if (!state.ended) {
        add(chunk, encoding);
        over({ status: res.statusCode, type: String(res.getHeader("content-type") ?? ""), headers: added(res, before), body: Buffer.concat(sent) });
      }
      called([chunk, encoding, done]);
      return res;
    },
  });
  Object.defineProperty(res, "headersSent", { get: () => hasHead, configurable: true });
  return { made, giveBack: () => {
    res.off("pipe", piped).off("unpipe", letGo);
    for (const [name, was] of functions) {
      delete (res as any)[name];
      if (was) Object.defineProperty(res, name, was);
    }
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    for (const [name, values] of before) res.setHeader(name, values.length === 1 ? values[0]! : values);
  } };
}

/** The headers that were not there before with that value. */
function added(res: ServerResponse, before: Map<string, string[]>): [string, string][] {
  return res.getHeaderNames().filter((name) => !own.has(name)).flatMap((name) => {
    const had = before.get(name) ?? [], has = valuesOf(res.getHeader(name));
    const news = name === "set-cookie" ? has.filter((one) => !had.includes(one)) : has.join("\n") === had.join("\n") ? [] : has;
    return news.map((value): [string, string] => [name, value]);
  });
}

/** A second response fails as in plain Express, although the first one is not out yet. */
function close(res: ServerResponse): void {
  const refuse = (): never => {
    throw Object.assign(new Error("Cannot set headers after they are sent to the client"), { code: "ERR_HTTP_HEADERS_SENT" });
  };
  for (const name of heads) Object.assign(res, { [name]: refuse });
  Object.defineProperty(res, "headersSent", { value: true, configurable: true });
}

/** What is done with `res` from now on does nothing. Middleware that sends the response later has its headers. */
export function ignore(res: ServerResponse): void {
  for (const name of [...heads, "flushHeaders"]) {
    const then = (res as any)[name];
    Object.assign(res, { [name]: (...given: unknown[]) => (res.headersSent ? res : then.apply(res, given)) });
  }
  Object.assign(res, { write: (...given: unknown[]) => (called(given), true), end: (...given: unknown[]) => (called(given), res) });
}

export function send(res: ServerResponse, made: Made): void {
  for (const [name] of made.headers) if (name.toLowerCase() !== "set-cookie") res.removeHeader(name);
  for (const [name, value] of made.headers) res.appendHeader(name, value);
  if (made.type) res.setHeader("Content-Type", made.type);
  res.statusCode = made.status;
  if (![204, 304].includes(made.status)) res.setHeader("Content-Length", made.body.length);
  res.end(made.body);
}

function pairsOf(given: object): [string, string | string[]][] {
  const pairs = !Array.isArray(given) ? Object.entries(given) : Array.isArray(given[0]) ? given
    : given.flatMap((name, i) => (i % 2 ? [] : [[name, given[i + 1]]]));
  return pairs.map(([name, value]) => [name, Array.isArray(value) ? value : String(value)]);
}
