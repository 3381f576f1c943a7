// Servers of a test file's own, and requests to them.
import { once } from "node:events";
import { Agent, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Express } from "express";
import type { Guard } from "../src/express.js";

export interface Answer { status: number; headers: Record<string, string | string[] | undefined>; body: string; reused: boolean; reason: string }

const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const closing: (() => unknown)[] = [];

export async function listening(app: Express, guarded: Guard): Promise<Server> {
  const made = app.listen(0, "127.0.0.1");
  await once(made, "listening");
  closing.push(() => (made.close(), made.closeAllConnections(), guarded.close()));
  return made;
}

export function send(to: Server, key?: string, more: Record<string, string> = {}, body: string | Buffer = "", path = "/", method = "POST"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const r = request({ agent, path, method, port: (to.address() as AddressInfo).port, host: "127.0.0.1",
      headers: { ...(key === undefined ? {} : { "Idempotency-Key": key }), ...more } }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk) => (text += chunk))
        .on("end", () => resolve({ status: answer.statusCode!, headers: answer.headers, body: text, reused: r.reusedSocket, reason: answer.statusMessage! }));
    });
    r.on("error", reject).end(body);
  });
}

export async function close(): Promise<void> {
  agent.destroy();
  for (const one of closing) await one();
}
