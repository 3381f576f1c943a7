// As many at a time as there are lanes. The pool has one connection more: steps that use it as well take turns.

export class Lanes {
  readonly busy: string[] = []; // whose names these are
  private readonly waiting: (() => void)[] = [];

  constructor(readonly all: number) {
    if (!Number.isInteger(all) || all < 1) throw new RangeError(`lanes is a whole number from 1, and not ${all}`);
  }

  async during<Made>(name: string, work: () => Promise<Made>): Promise<Made> {
    while (this.busy.length === this.all) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.busy.push(name);
    try {
      return await work();
    } finally {
      this.busy.splice(this.busy.indexOf(name), 1);
      this.waiting.shift()?.();
    }
  }
}
