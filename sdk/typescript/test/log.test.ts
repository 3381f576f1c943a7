// What strangers have sent, in an error's text, begins no line of the log.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lines } from "../src/log.js";

test("an error's frames are lines, and its text is none, also where its message was changed", () => {
  for (const [message, change] of [["a\nb", (was: string) => was], ["a\nb\nc", () => "a"], ["a\nb", () => "other"], ["a\nb", () => ""],
    ["a\n    at b\nc", (was: string) => was], ["a\n    at b\nc", (was: string) => `x: ${was}`]] as const) {
    const error = new Error(message);
    assert.ok(error.stack); // which is made when it is first read
    error.message = change(message);
    assert.match(lines(error), /^Error: a\\x0a *(at )?b.*(\n    at .*)+$/);
  }
});
