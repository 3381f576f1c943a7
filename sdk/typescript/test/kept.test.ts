// A kept response does what Node's does, on a real PostgreSQL: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Server } from "node:http";
import { after, before, test } from "node:test";
import express, { type NextFunction, type Request, type RequestHandler, type Response } from "express";
import { guard, type GuardSettings } from "../src/express.js";
import { OwnDatabase } from "./database.js";
import { close, listening, send } from "./server.js";

const database = new OwnDatabase(), { url } = database;
let act: (req: Request, res: Response, next: NextFunction) => unknown;

before(async () => {
  await database.make("orders");
});

after(async () => {
  await close();
  await database.drop();
});

async function opened(settings: GuardSettings = {}, earlier: RequestHandler[] = []): Promise<Server> {
  const app = express().set("env", "test"), guarded = guard({ databaseUrl: url, connections: 1, log: () => undefined, ...settings });
  for (const one of [...earlier, guarded]) app.use(one);
  return listening(app.all("/", (req, res, next) => act(req, res, next)), guarded);
}

test("JSON that is not UTF-8 is refused, and not changed", async () => {
  const shop = await opened();
  act = ({ body }, res) => void res.status(201).json(body);
  const latin1 = Buffer.from('{"n":"\xe9"}', "latin1");
  const post = async (key: string, type: string, body: Buffer): Promise<[number, string]> => {
    const answer = await send(shop, key, { "Content-Type": type }, body);
    return [answer.status, answer.status < 300 ? answer.body : JSON.parse(answer.body).type];
  };
  assert.deepEqual(await post("charset", "application/json; charset=iso-8859-1", latin1), [415, "about:blank"]);
  assert.deepEqual(await post("charset", 'application/json; a=b; charset="UTF-16"', latin1), [415, "about:blank"]);
  assert.deepEqual(await post("charset", "application/json", latin1), [400, "/problems/body"]);
  for (const [n, charset] of ["utf-8", '"UTF-8"', "utf8", "us-ascii"].entries())
    assert.deepEqual(await post(`charset-${n}`, `application/json;charset=${charset}`, Buffer.from('{"n":"é"}')), [201, '{"n":"é"}']);
});
