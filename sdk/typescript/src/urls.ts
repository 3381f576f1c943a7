// What AMQP_URL and DATABASE_URL may be. The libraries read more, and say forever that they can't connect, with a piece of the password.

const escapes = "a password's %, @, : and / are written %25, %40, %3A, %2F";

export function isUrl(text: string, scheme: RegExp): boolean {
  try {
    const { username, password } = new URL(text.replace("@/", "@host/")); // a database's may name none
    decodeURIComponent(`${username}:${password}`);
    return scheme.test(text) && /^\w+:\/\/(?=.)([^/?#]*@)?[^@?]*(\?|$)/.test(text); // with no @ behind the host
  } catch {
    return false;
  }
}

export function amqpUrl(text = process.env["AMQP_URL"] ?? ""): string {
  if (isUrl(text, /^amqps?:/)) return text;
  throw new Error(`AMQP_URL is not the URL of a broker, such as amqp://user:password@host:5672/vhost: ${escapes}`);
}

export function checkDatabaseUrl(text = process.env["DATABASE_URL"] ?? ""): void {
  if (/^(\/|socket:)/.test(text) || isUrl(text, /^postgres(ql)?:/)) return; // `pg` has other words for a socket
  throw new Error(`DATABASE_URL is not the URL of a database, such as postgresql://user:password@host:5432/database: ${escapes}`);
}
