// Node 20 lacks it, and Restate's SDK needs it.
Promise.withResolvers ??= function withResolvers() {
  let resolve, reject;
  const promise = new this((...both) => { [resolve, reject] = both; });
  return { promise, resolve, reject };
};
