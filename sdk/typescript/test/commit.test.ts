// COMMITs without an answer, and with a warning: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import { commit } from "../src/client.js";
import { OwnDatabase } from "./database.js";
import { AbsentStandby } from "./standby.js";

const database = new OwnDatabase(), { url } = database;

before(() => database.make("payments"));
after(() => database.drop());

test("a COMMIT that has no answer ends its connection, and nothing waits behind it", async () => {
  const pool = new pg.Pool({ connectionString: url, query_timeout: 300 });
  await AbsentStandby.during(url, async () => {
    const client = await pool.connect();
    await client.query("BEGIN; SELECT pg_logical_emit_message(true, 'test', '')");
    await assert.rejects(commit(client, "step"), /timeout/);
    await assert.rejects(client.query("ROLLBACK"), /closed/);
    client.release(true);
  });
  await pool.end();
});

test("a COMMIT in which a deferred trigger warns is believed", async () => {
  const pool = new pg.Pool({ connectionString: url });
  await pool.query(`CREATE TABLE note (n int);
    CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'low'; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()`);
  const client = await pool.connect();
  await client.query("BEGIN; INSERT INTO note VALUES (1)");
  const said: string[] = [];
  client.on("notice", ({ message }) => said.push(message!));
  await commit(client, "step");
  assert.deepEqual(said, ["low"]);
  client.release();
  await pool.end();
});
