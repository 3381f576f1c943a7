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
    const value = Number(number), whole = /^-?\d+(?=(?:\.0+)?$)/.exec(number)?.[0];
    if (!Number.isFinite(value) || (whole && value !== 0 && whole !== String(value)))
      throw new Error(`the data has ${number}, which a number of JavaScript can't hold: send it as a string`);
  }
}
