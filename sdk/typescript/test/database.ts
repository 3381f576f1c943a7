// A database of a test file's own on the server of DATABASE_URL, with Skald's schema by the command line that SKALD names.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import pg from "pg";

export class OwnDatabase {
  readonly name = `sdk_typescript_${randomUUID().replaceAll("-", "")}`;
  readonly url = process.env["DATABASE_URL"]!.replace(/[^/]*$/, this.name);

  async make(service: string): Promise<void> {
    await this.onServer(`CREATE DATABASE ${this.name}`);
    execFileSync(process.env["SKALD"]!, ["migrate", "--service", service], { env: { ...process.env, DATABASE_URL: this.url } });
  }

  drop(): Promise<void> {
    return this.onServer(`DROP DATABASE ${this.name} WITH (FORCE)`);
  }

  private async onServer(statement: string): Promise<void> {
    const admin = new pg.Client(process.env["DATABASE_URL"]);
    await admin.connect();
    await admin.query(statement);
    await admin.end();
  }
}
