// Lines of a log in which strangers' bytes begin no line of their own.

/** With control characters as \xNN. */
export function line(value: unknown): string {
  return String(value).replace(/\p{Cc}/gu, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** An error's stack, whose frames stay lines: PostgreSQL quotes in its message what it was given. */
export function lines(error: any): string {
  if (!error?.stack) return line(error);
  const stack = String(error.stack), message = String(error.message), at = stack.indexOf(message), end = at + message.length;
  return at < 0 ? line(stack) : line(stack.slice(0, end)) + stack.slice(end);
}
