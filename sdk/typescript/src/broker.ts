// The broker, and the queues of docs/protocol.md, "Routing".
import { setTimeout as sleep } from "node:timers/promises";
import amqp from "amqplib";
import { reason } from "./text.js";

export class WrongDatabase extends Error {}

/** A broker that takes the connection and then says nothing for `most` ms is tried again. */
export function connected(url: string, most = 10000): Promise<amqp.ChannelModel> {
  return amqp.connect(url, { timeout: most }).catch((error) => {
    const why = !/ConnectionOpenOk/.test(error.message) ? reason(error)
      : "the broker has refused the vhost (its log says why): it is not there, is down or full, or this user may not use it";
    throw new Error(`${url.replace(/\/\/([^:]*):.*@/s, "//$1@")}: ${why}`); // without the password
  });
}

/** One that says nothing does not answer to this either, and the process would wait until heartbeats are missing. */
export async function leave(broker: amqp.ChannelModel, most = 5000): Promise<void> {
  await Promise.race([broker.close(), sleep(most, undefined, { ref: false })]).catch(() => undefined);
  (broker as any).connection.stream.destroy();
}

/** The first is bound to this database: a process with another one is refused. */
export async function expectQueues(channel: amqp.Channel, service: string, database: string, declares: boolean): Promise<void> {
  const queue = `skald.${service}`;
  const made = (name: string, more: Record<string, unknown>): Promise<unknown> =>
    channel.assertQueue(name, { durable: true, arguments: { "x-queue-type": "quorum", ...more } });
  const left = (key: string) => ({ "x-dead-letter-exchange": "skald.parked", "x-dead-letter-routing-key": key });
  // Who declares nothing sees no arguments, but the name of the queue that `skald declare` has made for its database.
  await (declares ? made(`${queue}.database`, left(database)) : channel.checkQueue(`${queue}.database.${database}`)).catch((error) => {
    if (![404, 406].includes(error?.code)) throw error;
    throw new WrongDatabase(`the messages for ${service} belong to another database than the DATABASE_URL's (${database}), ` +
      `or none was declared: check it, or run \`skald declare\` (${error.message})`);
  });
  if (!declares) return;
  await made(queue, { ...left(service), "x-delivery-limit": 50, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish" });
  await made(`${queue}.parked`, {});
  for (const exchange of ["skald", "skald.parked"]) await channel.assertExchange(exchange, "direct", { durable: true });
  await channel.bindQueue(queue, "skald", service);
  await channel.bindQueue(`${queue}.parked`, "skald.parked", service);
}
