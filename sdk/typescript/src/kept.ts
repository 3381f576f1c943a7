// A response that is kept in `res` until the transaction behind it has ended: express.ts.
import type { ServerResponse } from "node:http";
import { Writable, type Readable } from "node:stream";
import type { Loan } from "./client.js";
import type { Made } from "./response.js";

type Called = () => void;
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
const callback = (given: unknown[]): Called | undefined => given.find((one): one is Called => typeof one === "function");
const valuesOf = (value?: number | string | string[]): string[] => (value === undefined ? [] : [value].flat().map(String));

/** Keeps what is written to `res`; `cut` is for what is destroyed, or was streamed to a client that has gone and will have no end. What
 * middleware has put there before, functions and headers, is its own: neither used nor kept. */
export function keep(res: ServerResponse, state: Loan, cut: (why: unknown) => Made): Kept {
  const functions = replaced.map((name) => [name, Object.getOwnPropertyDescriptor(res, name)] as const);
  const before = new Map(res.getHeaderNames().map((name) => [name, valuesOf(res.getHeader(name))]));
  const body: Buffer[] = [], sent: Called[] = [];
  let head: Omit<Made, "body"> | undefined, chunk: Buffer;
  // Refuses what Node refuses, and calls back when Node does.
  const sink = new Writable({ write: (one, _, done) => ((chunk = Buffer.from(one)), done()) }).on("error", () => undefined);
  const add = (...given: any[]): void => {
    (sink.write as any)(...given);
    if (state.ended) return;
    if (!head) res.writeHead(res.statusCode); // which tells middleware between the guard and the handler
    body.push(chunk);
  };
  const { destroy } = res;
  let over = (_: Made): void => undefined;
  const made = new Promise<Made>((resolve) => (over = (one) => ((state.ended = true), sink.end(), resolve(one), close(res, heads))));
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
      if (head && (more.length || status !== head.status)) return tooLate();
      if (head) return res; // some middleware calls writeHead again with the same status; that is harmless
      if (!((status | 0) >= 100 && (status | 0) <= 999))
        throw Object.assign(new RangeError(`Invalid status code: ${status}`), { code: "ERR_HTTP_INVALID_STATUS_CODE" });
      res.statusCode = status | 0;
      const given = pairsOf(more.find((one) => typeof one === "object" && one !== null) ?? {});
      given.forEach(([header]) => res.removeHeader(header));
      given.forEach(([header, value]) => res.appendHeader(header, value));
      head = { status: res.statusCode, type: String(res.getHeader("content-type") ?? ""), headers: added(res, before), sent };
      close(res, heads.filter((name) => name !== "writeHead"));
      return res;
    },
    write: (...given: unknown[]) => (add(...given), true),
    end: (...given: unknown[]) => {
      const done = callback(given), [one, encoding] = given[0] === done ? [] : given, isLate = state.ended;
      if (one) add(one, typeof encoding === "string" ? encoding : undefined, isLate ? done : undefined);
      else if (!isLate && !head) res.writeHead(res.statusCode);
      if (done && !(one && isLate)) sent.push(done);
      if (!isLate) over({ ...head!, body: Buffer.concat(body) });
      return res;
    },
  });
  Object.defineProperty(res, "headersSent", { get: () => head !== undefined, configurable: true });
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

const tooLate = (): never => {
  throw Object.assign(new Error("Cannot set headers after they are sent to the client"), { code: "ERR_HTTP_HEADERS_SENT" });
};

/** What changes a head fails as in plain Express, although it is not out yet. */
function close(res: ServerResponse, names: string[]): void {
  for (const name of names) Object.assign(res, { [name]: tooLate });
  Object.defineProperty(res, "headersSent", { value: true, configurable: true });
}

/** What is done with `res` from now on does nothing. Middleware that sends the response later has its headers. */
export function ignore(res: ServerResponse): void {
  for (const name of [...heads, "flushHeaders"]) {
    const then = (res as any)[name];
    Object.assign(res, { [name]: (...given: unknown[]) => (res.headersSent ? res : then.apply(res, given)) });
  }
  const write = (...given: unknown[]): boolean => (process.nextTick(callback(given) ?? (() => undefined)), true);
  Object.assign(res, { write, end: () => res });
}

function pairsOf(given: object): [string, string | string[]][] {
  return !Array.isArray(given) ? Object.entries(given) : Array.isArray(given[0]) ? given
    : given.flatMap((name, i) => (i % 2 ? [] : [[name, given[i + 1]]]));
}
