// A message for a step of the saga `order`.
import type { Message } from "../src/index.js";

const plan = "create@orders=compensatable charge@payments=compensatable ship@shipping=pivot pay-out@payments=retriable";
export const body = Buffer.from(' {"id": "1", "cents": 1.50}');

export function message(step: string, place: number, more: { body?: Buffer; back?: boolean; key?: string; headers?: Record<string, string> } = {}): Message {
  const id = `${more.key ?? "k"}:${step}${more.back ? ".compensate" : ""}`;
  return { type: step, messageId: id, body: more.body ?? body, headers: {
    "x-idempotency-key": id, "x-saga-scope": "", "x-saga": "order", "x-saga-home": "orders",
    "x-saga-itinerary": `${more.back ? "back" : "forward"} ${place}/4 ${plan}`, ...more.headers } };
}
