// Lines of a log in which strangers' bytes begin no line of their own.

/** With control characters as \xNN. */
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
