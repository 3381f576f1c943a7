// Lines of a log in which strangers' bytes begin no line of their own.

/** With control characters as \xNN. */
export function line(value: unknown): string {
  return String(value).replace(/\p{Cc}/gu, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** An error's stack. Its frames stay lines, and its text does not: PostgreSQL quotes in its message what it was given. Who caught it may have
 * changed the message, so that the stack has another one. */
export function lines(error: any): string {
  if (!error?.stack) return line(error);
  const stack = String(error.stack), message = String(error.message), at = stack.indexOf(message), end = at < 0 ? 0 : at + message.length;
  const rows = stack.slice(end).split("\n");
  let first = rows.length;
  while (first > 1 && rows[first - 1]!.startsWith("    at ")) --first;
  return [stack.slice(0, end) + rows.splice(0, first).join("\n"), ...rows].map(line).join("\n");
}
