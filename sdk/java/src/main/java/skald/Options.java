package skald;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiFunction;

/** How a step is run; what is left out is as in docs/languages.md. */
public final class Options {
    final Map<String, Object> said = new TreeMap<>();
    int version = 1;
    BiFunction<JsonNode, Integer, JsonNode> upcast;

    public Options attempts(int most) { return say("attempts", most); }
    public Options firstWait(Duration wait) { return say("first_ms", wait.toMillis()); }
    public Options longestWait(Duration wait) { return say("longest_ms", wait.toMillis()); }
    public Options deadline(Duration after) { return say("deadline_ms", after.toMillis()); }
    public Options version(int version) { return say("version", this.version = version); }

    /** Makes data of an older version, its second argument, data of this one. */
    public Options upcast(BiFunction<JsonNode, Integer, JsonNode> function) {
        upcast = function;
        return this;
    }

    Options say(String name, Object value) {
        said.put(name, value);
        return this;
    }
}
