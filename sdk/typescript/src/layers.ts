// Where Express asks for an error to be handled, watched in each copy of Express that has a part in a request: docs/adr/0060.
export type Next = (error?: unknown) => void;
export type Raised = (error: unknown, next: Next) => void;

/** Of a request: what is told of its errors. */
export const onRaised = Symbol("skald");

const watched = new WeakSet<object>(), lasts = new WeakMap<object, unknown>();

// Where the app has no error handler, so that there is one to be watched before Express itself makes a response of the error.
const passesOn = (error: unknown, _req: unknown, _res: unknown, next: Next): void => next(error);

const kindOf = (layer: unknown): any => Object.getPrototypeOf(Object(layer));
const askingIn = (kind: object): string | undefined => ["handleError", "handle_error"].find((name) => name in kind);

/** Has Express tell of each error on its way to error handlers, wherever it was raised: what they make a 400 of is not the handler's decision. */
export function watch(req: any): void {
  const met = new Set<unknown>();
  if (!meetApp(req.app, met)) throw new Error("guard() is for Express 4 and 5: this is neither");
  const look = (): void => {
    if (!met.has(req.app)) meetApp(req.app, met);
    meet(req.route?.stack, met);
  };
  look();
  // A Router sets these before it asks a layer. So is seen what a function of the user's, or of Express for an app, calls.
  for (const name of ["params", "route"]) {
    let value = req[name];
    Object.defineProperty(req, name, { configurable: true, enumerable: true, get: () => value, set: (to) => { value = to; look(); } });
  }
}

function meetApp(app: any, met: Set<unknown>): boolean {
  met.add(app);
  const stack = (app?._router ?? app?.router)?.stack;
  if (!askingIn(kindOf(stack?.[0]))) return false;
  if (lasts.get(app) !== stack.at(-1)) {
    app.use(passesOn);
    lasts.set(app, stack.at(-1));
  }
  meet(stack, met);
  return true;
}

/** The layers of a Router or route, and of the Routers in it: each may be of another copy. */
function meet(stack: unknown, met: Set<unknown>): void {
  if (!Array.isArray(stack) || met.has(stack)) return;
  met.add(stack);
  for (const layer of stack) {
    tell(kindOf(layer));
    meet(layer?.handle?.stack, met);
  }
}

function tell(kind: any): void {
  const name = askingIn(kind);
  if (!name || watched.has(kind)) return;
  watched.add(kind);
  const handle = kind[name];
  kind[name] = function (error: unknown, of: { [onRaised]?: Raised }, res: unknown, next: Next): void {
    const then: Next = (raised) => handle.call(this, raised, of, res, next);
    if (of[onRaised]) of[onRaised](error, then);
    else then(error);
  };
}
