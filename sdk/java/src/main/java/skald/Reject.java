package skald;

/** A business rejection: what the step wrote is undone, and the saga compensates. Not after the pivot. */
public final class Reject extends RuntimeException { public Reject(String reason) { super(reason); } }
