// What strangers have sent, in an error's text, begins no line of the log.
import assert from "node:assert/strict";
import { test } from "node:test";
import amqp from "amqplib";
import { Participant } from "../src/index.js";
import { lines } from "../src/text.js";
import { message } from "./message.js";

test("an error's frames are lines, and its text is none, also where its message was changed", () => {
  for (const [message, change] of [["a\nb", (was: string) => was], ["a\nb\nc", () => "a"], ["a\nb", () => "other"], ["a\nb", () => ""],
    ["a\n    at b\nc", (was: string) => was], ["a\n    at b\nc", (was: string) => `x: ${was}`]] as const) {
    const error = new Error(message);
    assert.ok(error.stack); // which is made when it is first read
    error.message = change(message);
    assert.match(lines(error), /^Error: a\\x0a *(at )?b.*(\n    at .*)+$/);
  }
});

test("where each address of a host has refused, the log says so", async (t) => {
  const refused = Object.assign(new AggregateError([new Error("connect ECONNREFUSED ::1:1"), new Error("connect ECONNREFUSED 127.0.0.1:1")]), { code: "x" });
  const why = "Error: connect ECONNREFUSED ::1:1; Error: connect ECONNREFUSED 127.0.0.1:1", said: string[] = [];
  const log = (line: string): void => void said.push(line), fails = async (): Promise<never> => { throw refused; };
  const shop: any = new Participant("payments", { databaseUrl: "none", amqpUrl: "amqp://localhost", log });
  t.mock.method(shop, "process", fails);
  await shop.processKept(message("pay-out", 4), () => said.length > 0);
  assert.deepEqual(said, [`k:pay-out is kept until the database takes it: ${why}`]);
  t.mock.method(shop, "connect", async () => undefined);
  t.mock.method(amqp, "connect", fails);
  await assert.rejects(shop.consume("amqp://u:secret@localhost:1", new Promise(() => undefined)), { message: `amqp://u@localhost:1: ${why}` });
  t.mock.method(process, "once", () => process);
  t.mock.method(shop, "consume", () => ((shop.stopping = true), fails()));
  await shop.run();
  assert.equal(said[1], `trying again with new connections: ${why}`);
  for (const error of [refused, new Error("fetch failed", { cause: refused }), new Error("fetch failed", { cause: new Error("a\nb") })])
    assert.match(lines(error), error.cause ? /^Error: fetch failed \[cause\]: (a\\x0ab|Error: connect .*0\.1:1)(\n    at .*)+$/ : /^AggregateError.*::1:1; .*0\.1:1(\n    at .*)+$/);
});
