// A request's body: its bytes, and what they say if they are JSON.
import type { IncomingMessage } from "node:http";
import { problem, unreadable, type Made } from "./response.js";
import { refuseLostDigits } from "./text.js";

const unicode = new Set(["utf-8", "utf8", "us-ascii"]);

/** Undefined if it has more bytes than that. */
export async function bodyOf(req: IncomingMessage, most: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    if ((size += chunk.length) > most) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Makes `req.body` what the bytes say if they are JSON; or gives the response if they can't be read. */
export function parse(req: IncomingMessage & { body?: unknown }, bytes: Buffer): Made | undefined {
  const type = req.headers["content-type"] ?? "", coding = req.headers["content-encoding"] || "identity";
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(type)) return undefined;
  if (coding.toLowerCase() !== "identity")
    return unreadable(`this server reads no JSON with Content-Encoding: ${coding}; send it as it is`, [["Accept-Encoding", "identity"]]);
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1] ?? "utf-8";
  if (!unicode.has(charset.toLowerCase())) return unreadable(`this server reads no JSON with charset=${charset}; send it in UTF-8`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    req.body = text === "" ? undefined : JSON.parse(text);
    refuseLostDigits(text);
  } catch (error: any) {
    return problem("body", 400, "The body is not what this resource takes", error.message);
  }
  return undefined;
}
