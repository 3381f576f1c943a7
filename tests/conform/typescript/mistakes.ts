// A participant on the functions of docs/languages-sql.md alone, without the SDK, and what one may do wrong: skald conform must name it.
// The first argument is the mistake; `none`: it is right.
import amqp from "amqplib";
import pg from "pg";

const mistake = process.argv[2];
const service = "payments";
const quick = { attempts: 3, first_ms: 50, longest_ms: 200 };
const steps = JSON.stringify({
  "conform/charge": { kind: "compensatable", ...quick },
  "conform/ship": { kind: "pivot", ...quick },
  "conform/pay-out": { kind: "retriable", ...quick },
});
const known = ["cents", "rejects_at", "fails_at", "fails", "waits_at", "marks", "receipt"];

class Reject extends Error {}
class Snooze extends Error {}

const db = new pg.Client(process.env["DATABASE_URL"]);
const other = new pg.Client(process.env["DATABASE_URL"]);
for (const client of [db, other]) await client.connect();
const channel = await (await amqp.connect(process.env["AMQP_URL"]!)).createChannel();
await db.query("SELECT skald.host($1, $2)", [service, steps]);

const write = (on: pg.Client, row: any, step: string, data: any): Promise<unknown> =>
  on.query("INSERT INTO conform.ledger (scope, saga, step, cents) VALUES ($1, $2, $3, $4)", [row.scope, row.key, step, data.cents]);

async function publish(row: any, step: string): Promise<void> {
  const body = Buffer.from(JSON.stringify({ saga: row.key }));
  if (mistake === "publishes_directly")
    channel.publish("skald", "conform.events", body, {
      type: "shipped", messageId: `${row.key}:${step}.1.shipped`, headers: { "x-saga-scope": row.scope } });
  else await db.query("SELECT skald.publish($1, 'conform.events', 'shipped', $2)", [row.taken, body]);
}

async function work(row: any, step: string, data: any): Promise<void> {
  if (mistake !== "effect_after_done") await write(mistake === "effect_outside" ? other : db, row, step, data);
  if (step === "ship") await publish(row, step);
  if (data.fails_at === step && row.attempt <= data.fails) throw new Error("as the data say");
  if (data.rejects_at === step) throw new Reject("as the data say");
  const closed = async () => (await db.query("SELECT FROM conform.gate WHERE scope = $1 AND saga = $2", [row.scope, row.key])).rowCount === 0;
  if (data.waits_at === step && (await closed())) throw new Snooze();
  if (step === "charge" && data.marks) data.receipt = row.key;
}

async function handle(m: amqp.ConsumeMessage, givenUp: boolean): Promise<void> {
  const body = m.content.toString("utf8");
  const headers = Object.fromEntries(Object.entries(m.properties.headers ?? {})
    .filter(([, value]) => typeof value === "string" || typeof value === "number").map(([name, value]) => [name, String(value).replace(/\0/g, "?")]));
  await db.query("BEGIN");
  const { rows } = await db.query(
    "SELECT verdict, event, scope, key, step, is_compensation, attempt, taken::text FROM skald.take($1, $2, $3, $4, $5, NULL, $6)",
    [m.properties.type ?? "", JSON.stringify(headers), m.content, steps, m.properties.messageId, givenUp]);
  const row = rows[0];
  const step = row.step + (row.is_compensation ? ".compensate" : "");
  if (row.verdict !== "run") {
    if (mistake === "ignores_verdict" && row.event === "step.duplicate") await write(db, row, step, JSON.parse(body));
    await db.query("COMMIT");
    return channel.ack(m);
  }
  let data = JSON.parse(body);
  const before = JSON.stringify(data);
  try {
    await work(row, step, data);
    if (mistake === "loses_members") data = Object.fromEntries(Object.entries(data).filter(([name]) => known.includes(name)));
    const sent = JSON.stringify(data) === before ? m.content : Buffer.from(JSON.stringify(data));
    await db.query("SELECT skald.done($1, $2)", [row.taken, sent]);
    if (mistake === "ack_before_commit") channel.ack(m);
    await db.query("COMMIT");
    if (mistake === "effect_after_done") await write(db, row, step, data);
    if (mistake !== "ack_before_commit") channel.ack(m);
    return;
  } catch (error: any) {
    await db.query("ROLLBACK");
    if (["40P01", "55P03"].includes(error.code)) return await handle(m, givenUp);
    if (error instanceof Reject) {
      if (mistake === "reject_without_rollback") {
        await db.query("BEGIN");
        await write(db, row, step, data);
      }
      await db.query("SELECT skald.reject($1, $2, $3)", [row.taken, m.content, error.message]);
      if (mistake === "reject_without_rollback") await db.query("COMMIT");
    } else if (error instanceof Snooze) {
      if (mistake !== "snoozes_by_ack") await db.query("SELECT skald.snooze($1, $2, interval '100 ms')", [row.taken, m.content]);
    } else await db.query("SELECT skald.fail($1, $2, $3)", [row.taken, m.content, error.message]);
  }
  channel.ack(m);
}

let last: Promise<void> = Promise.resolve(); // one at a time
await channel.prefetch(8);
const isGivenUp = (m: amqp.ConsumeMessage): boolean => m.fields.redelivered || m.properties.headers?.["x-first-death-reason"] === "delivery_limit";
for (const [queue, isParked] of [[`skald.${service}`, false], [`skald.${service}.parked`, true]] as const)
  await channel.consume(queue, (m) => void (last = last.then(() => (m ? handle(m, isParked && isGivenUp(m)) : undefined))));
