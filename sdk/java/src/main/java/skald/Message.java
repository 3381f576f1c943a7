package skald;

import java.util.Map;

/** A delivery, as it came. givenUp: the broker has stopped delivering it, and it came from the queue `skald.SERVICE.parked`. */
public record Message(String type, Map<String, Object> headers, byte[] body, String id, String contentType, boolean givenUp) {}
