package skald;

import java.time.Duration;

/** Not yet: what the step wrote is undone, and it runs again after that time. It uses no attempt. */
public final class Snooze extends RuntimeException { public Snooze(Duration wait) { super(wait.toNanos() / 1000 + " us"); } }
