// What was sent and thrown, as the database takes it.
import { lines, reason } from "./log.js";

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
