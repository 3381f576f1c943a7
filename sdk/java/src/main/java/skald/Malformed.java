package skald;

/** The step can't work with this data: the delivery is parked, and the saga is stuck until an operator looks. */
public final class Malformed extends RuntimeException { public Malformed(String why) { super(why); } }
