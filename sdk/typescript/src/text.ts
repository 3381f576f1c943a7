// Text for a log, a database and JSON, of what was sent and thrown.

/** For lines of a log in which strangers' bytes begin no line of their own: with control characters as \xNN. */
export function line(value: unknown): string {
  return String(value).replace(/\p{Cc}/gu, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

const several = (error: any): string => (error instanceof AggregateError ? error.errors.map(String).join("; ") : "");

/** What an error says; where a host's addresses have each refused, it has no text, but they have. */
export function reason(error: any): string {
  return String(error?.message || several(error) || error?.code || (error?.message ?? error));
}

/** An error's stack and cause. Its frames stay lines, and its text does not: PostgreSQL quotes in its message what it was given. Who caught it may
 * have changed the message, so that the stack has another one. */
export function lines(error: any): string {
  if (!error?.stack) return line(error);
  const stack = String(error.stack), message = String(error.message), at = stack.indexOf(message), end = at < 0 ? 0 : at + message.length;
  const rows = stack.slice(end).split("\n");
  let first = rows.length;
  while (first > 1 && rows[first - 1]!.startsWith("    at ")) --first;
  const cause = error.cause === undefined ? several(error) : reason(error.cause);
  const said = stack.slice(0, end) + rows.splice(0, first).join("\n") + (cause && ` [cause]: ${cause}`);
  return [said, ...rows].map(line).join("\n");
}

/** What a text column takes. */
export function text(value: string): string { return Buffer.from(value.replace(/\0/g, "\\x00"), "utf8").toString("utf8"); }

/** What was thrown; or, where it can't be made text, an error that says so. */
export function withText(thrown: any): any {
  try {
    return `${thrown?.code} ${thrown?.name} ${reason(thrown)} ${lines(thrown)}` && thrown;
  } catch {
    return new Error("what the step has thrown can't be made text");
  }
}

/** As text. What has no text form is left out: then take() says which header is missing. */
export function headersOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const plain = (value: any): unknown =>
    Buffer.isBuffer(value) ? value.toString("utf8") : value?.["!"] === "timestamp" ? value.value : value;
  return Object.fromEntries(Object.entries(headers).map(([name, value]): [string, unknown] => [text(name), plain(value)])
    .filter(([, value]) => ["string", "boolean", "bigint"].includes(typeof value) || Number.isInteger(value))
    .map(([name, value]) => [name, text(String(value))]));
}

/** JSON whose numbers are those that were meant, or an error. */
export function dump(data: unknown, name: string): Buffer {
  const json: string | undefined = JSON.stringify(data, (_, value) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${value} can't be represented in JSON`);
    return value;
  });
  if (json === undefined) throw new Error(`${name} is ${typeof data}, which JSON does not have: give null, or an object`);
  return Buffer.from(json);
}

/** Whole numbers beyond 2^53, and what is larger than every double, would change on their way through a JavaScript number. */
export function refuseLostDigits(json: string): void {
  const bare = json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '""');
  for (const [number] of bare.matchAll(/-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g)) {
    const value = Number(number), whole = /^-?\d+(?=(?:\.0+)?$)/.exec(number)?.[0];
    if (!Number.isFinite(value) || (whole && value !== 0 && whole !== String(value)))
      throw new Error(`the data has ${number}, which a number of JavaScript can't hold: send it as a string`);
  }
}
