// JSON whose numbers are those that were meant, or an error.

export function dump(data: unknown): Buffer {
  return Buffer.from(JSON.stringify(data, (_, value) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${value} can't be represented in JSON`);
    return value;
  }));
}

/** Whole numbers beyond 2^53, and what is larger than every double, would change on their way through a JavaScript number. */
export function refuseLostDigits(json: string): void {
  const bare = json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '""');
  for (const [number] of bare.matchAll(/-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g)) {
    const whole = wholeOf(number);
    if (!Number.isFinite(Number(number)) || (whole !== undefined && whole !== wholeOf(String(Number(number)))))
      throw new Error(`the data has ${number}, which a number of JavaScript can't hold: send it as a string`);
  }
}

/** Undefined if it has a fraction; 1.00 and 10e-1 have none. */
function wholeOf(number: string): bigint | undefined {
  const [, sign = "", digits = "", fraction = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(number) ?? [];
  const all = digits + fraction;
  let end = all.length; // a pattern would look for it at every zero
  while (end > 0 && all[end - 1] === "0") --end;
  const zeros = Number(power) - fraction.length + all.length - end;
  return end === 0 ? 0n : zeros < 0 || zeros > 400 ? undefined : BigInt(sign + all.slice(0, end)) * 10n ** BigInt(zeros);
}
