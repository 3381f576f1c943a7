import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import amqp from "amqplib";
import { message } from "./message.js";

export async function waitFor(holds: () => Promise<boolean>): Promise<void> {
  for (const until = Date.now() + 30_000; !(await holds()); await sleep(20)) assert.ok(Date.now() < until);
}

/** A participant as a process of its own, and who sends it messages. */
export async function participant(url: string) {
  const env = { ...process.env, DATABASE_URL: url };
  const broker = await amqp.connect(process.env["AMQP_URL"]!);
  const channel = await broker.createChannel();
  for (const queue of ["", ".parked", ".database"]) await channel.deleteQueue(`skald.payments${queue}`);
  execFileSync(process.env["SKALD"]!, ["declare", "--service", "payments"], { env });
  let running: ChildProcess;
  let said = "";
  const queue = () => channel.checkQueue("skald.payments");
  return {
    queue,
    said: () => said,
    exitCode: (): Promise<unknown> => new Promise((resolve) => running.on("exit", resolve)),
    start: (more = "") => {
      running = spawn(process.execPath, ["--input-type=module", "-e", `
        import { Participant } from ${JSON.stringify(fileURLToPath(new URL("../src/index.js", import.meta.url)))};
        await new Participant("payments", { ${more} }).retriable("order", "pay-out",
          async (ctx) => {
            if (ctx.saga.startsWith("waits")) {
              console.error("begins");
              while (!(await ctx.sql("SELECT FROM gate")).rowCount);
            }
            await ctx.sql("UPDATE wallet SET cents = cents - 1");
            if (ctx.saga === "kills") process.exit(3);
            if (ctx.saga === "hangs") await new Promise(() => undefined);
            if (ctx.saga === "forgets") (async () => { await ctx.sql("SELECT 1/0"); })();
          }).run();`], { env, stdio: ["ignore", "ignore", "pipe"] });
      running.stderr!.on("data", (text) => (said += text));
    },
    kill: () => void running.kill("SIGKILL"),
    stop: (name: NodeJS.Signals = "SIGTERM") => void running.kill(name),
    close: () => broker.close(),
    cameBack: async () => { // how often, by message
      const all = new Map<string, number>();
      for (let m; (m = await channel.get("skald.payments")); ) all.set(m.properties.messageId, m.properties.headers?.["x-delivery-count"] ?? 0);
      return all;
    },
    send: (number: number | string, headers: Record<string, string> = {}, exchange = "skald") => {
      const m = message("pay-out", 4, { key: typeof number === "string" ? number : `k${number}`, headers });
      channel.publish(exchange, "payments", m.body, { type: m.type, messageId: m.messageId, headers: m.headers, persistent: true });
    },
    end: async () => {
      const ended = new Promise((resolve) => running.on("exit", resolve));
      running.kill("SIGTERM");
      assert.equal(await ended, 0);
      await waitFor(async () => (await queue()).consumerCount === 0);
      assert.equal((await queue()).messageCount, 0); // what was not acked would be back
      await broker.close();
    },
  };
}
