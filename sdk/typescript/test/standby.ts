// A synchronous standby that never answers: COMMITs wait for it.
import pg from "pg";

export class AbsentStandby {
  private seen = 0;
  private constructor(private readonly c: pg.Client, private readonly database: string) {}

  static async during(url: string, work: (standby: AbsentStandby) => Promise<void>): Promise<void> {
    const c = new pg.Client(process.env["DATABASE_URL"]), other = new pg.Client(url);
    await Promise.all([c.connect(), other.connect()]);
    await c.query("SELECT pg_advisory_lock(hashtextextended('skald.test.synchronous_standby_names', 0))"); // it is the whole server's
    const standby = new AbsentStandby(c, other.database!);
    try {
      await standby.set("SET synchronous_standby_names = 'nobody'");
      // The server's checkpointer has yet to read the setting.
      while (!standby.seen) await standby.cancelled(other.query("SELECT pg_logical_emit_message(true, 'test', '')"));
      await work(standby);
    } finally {
      await standby.end();
      await Promise.all([c.end(), other.end()]);
    }
  }

  end(): Promise<void> { return this.set("RESET synchronous_standby_names"); }

  private async set(change: string): Promise<void> {
    await this.c.query(`ALTER SYSTEM ${change}`);
    await this.c.query("SELECT pg_reload_conf()");
  }

  /** Has COMMITs that wait do so no longer, as an operator may; how many there were. */
  async cancel(): Promise<number> {
    const { rowCount } = await this.c.query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
      WHERE datname = $1 AND wait_event = 'SyncRep'`, [this.database]);
    this.seen += rowCount!;
    return rowCount!;
  }

  /** What comes of it if no COMMIT may wait. */
  async cancelled<Made>(made: Promise<Made>): Promise<Made> {
    let isOver = false;
    made.catch(() => undefined).finally(() => (isOver = true));
    while (!isOver) await this.cancel();
    return made;
  }
}
