// The service `shipping` of the order saga in TypeScript, in the place of shipping_service: scripts/demo.sh --shipping typescript.
import { readFile } from "node:fs/promises";
import { Participant, Reject } from "skald-participant";

interface Order {
  id: string;
  sku: string;
  quantity: number;
}

const shipping = new Participant("shipping");

shipping.pivot<Order>("place-order", "arrange-shipping", async (ctx, order) => {
  const taken = await ctx.sql("UPDATE stock SET free = free - $2 WHERE sku = $1 AND free >= $2", [order.sku, order.quantity]);
  if (taken.rowCount === 0) throw new Reject("out of stock");
  await ctx.sql("INSERT INTO shipment (order_id, sku, quantity) VALUES ($1, $2, $3)", [order.id, order.sku, order.quantity]);
});

await shipping.connect(); // which refuses another service's database
const { rows } = await shipping.pool.query("SELECT to_regclass('stock') IS NULL AS missing");
if (rows[0].missing) await shipping.pool.query(await readFile(process.env["SHIPPING_TABLES"]!, "utf8"));
await shipping.run();
