package skald;

/** A step or its compensation. It throws Reject, Snooze or Malformed; anything else is a fault, and is tried again. */
public interface Work<D> {
    void run(Context ctx, D data) throws Exception;
}
