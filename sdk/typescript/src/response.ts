// What is sent: a response as it is stored, and those of the guard itself.
import type { ServerResponse } from "node:http";

/** `sent`: whom the handler wants told when it has been. */
export interface Made { status: number; type: string; headers: [string, string][]; body: Buffer; problem?: string; sent?: (() => void)[] }

export function send(res: ServerResponse, made: Made): void {
  for (const [name] of made.headers) if (name.toLowerCase() !== "set-cookie") res.removeHeader(name);
  for (const [name, value] of made.headers) res.appendHeader(name, value);
  if (made.type) res.setHeader("Content-Type", made.type);
  res.statusCode = made.status;
  res.statusMessage = ""; // of another status, perhaps; and a replay has none
  if (![204, 304].includes(made.status) && res.req.method !== "HEAD") res.setHeader("Content-Length", made.body.length);
  made.sent?.forEach((done) => res.once("finish", done));
  res.end(made.body);
}

export function problem(name: string, status: number, title: string, detail: string, more: [string, string][] = []): Made {
  const body = Buffer.from(JSON.stringify({ type: name === "about:blank" ? name : `/problems/${name}`, title, status, detail }));
  return { status, type: "application/problem+json", headers: status === 503 ? [["Retry-After", "1"]] : more, body, problem: name };
}
export const away = (): Made => problem("unavailable", 503, "The database is away", "the database is away; send the request again with the same key");
export const full = (): Made => problem("about:blank", 503, "Service Unavailable",
  "other requests have all connections; nothing was done, send the request again");
export const unknown = (): Made => problem("outcome-unknown", 503, "It is not known whether the request took effect",
  "it is not known whether the request took effect; send it again with the same key to learn it");
export const inTheWay = (): Made => problem("about:blank", 503, "Service Unavailable",
  "others had the same rows each time; nothing was done, send the request again");
export const endedItself = (): Made => problem("about:blank", 500, "Internal Server Error",
  "the service ended its own transaction; part of the request may have taken effect");
export const cutOff = (): Made => problem("about:blank", 500, "Internal Server Error", "the response was never finished; nothing was done");
export const tooSlow = (): Made => problem("about:blank", 503, "Service Unavailable", "the request took too long; nothing was done, send it again");
export const tooLarge = (): Made => problem("about:blank", 413, "Content Too Large", "the body is larger than this server takes",
  [["Connection", "close"]]);
export const unreadable = (why: string, more: [string, string][] = []): Made => problem("about:blank", 415, "Unsupported Media Type", why, more);
