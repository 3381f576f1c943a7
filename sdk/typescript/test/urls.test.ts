// Which URLs are refused before anything is connected to, and without a piece of the password.
import assert from "node:assert/strict";
import { test } from "node:test";
import { guard } from "../src/express.js";
import { Participant } from "../src/index.js";
import { isUrl } from "../src/urls.js";

test("a DATABASE_URL that is none is refused at the start", async () => {
  const refused = /^Error: DATABASE_URL is not the URL of a database, such as ((?!cret).)*$/;
  for (const databaseUrl of ["", "host=127.0.0.1 dbname=cret", "postgresql://u:se@cret/x@127.0.0.1:1/none", "postgresql://u:1/cret@127.0.0.1:1/none",
    "postgresql://u:se/cret@127.0.0.1:1/none", "postgresql://u:1#cret@127.0.0.1:1/none", "postgresql://u:%c3cret@127.0.0.1:1/none", "mysql://u:cret@127.0.0.1"]) {
    assert.throws(() => guard({ databaseUrl }), refused);
    const shop = new Participant("none", { databaseUrl });
    await assert.rejects(shop.connect(), refused);
    await shop.pool.end();
  }
  for (const databaseUrl of ["postgresql://u:se%40cret@h,i:5432/x?user=a@b", "postgres:///x?host=/tmp", "postgresql://u:p@/x?host=/tmp", "/tmp x", "socket:/tmp?db=x"])
    await guard({ databaseUrl }).close();
});

test("an AMQP_URL with an @ behind the host is none", () => {
  for (const [text, is] of [["amqp://u:se@cret/x@h", false], ["amqp://u:1/cret@h", false], ["amqp://u:1#cret@h", false], ["amqp://", false],
    ["amqp://h", true], ["amqp://u@x:se@cret@h", true], ["amqps://u:se%40cret@h:5671/x?heartbeat=5", true]] as const) assert.equal(isUrl(text, /^amqps?:/), is, text);
});
