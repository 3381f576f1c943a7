package skald;

import com.fasterxml.jackson.databind.JsonNode;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a step can use while it runs. It must not be kept. */
public final class Context {
    public final Connection connection; // in Skald's transaction: do not end it
    public final String scope, saga, definition, step; // saga: its key
    public final int version, attempt; // version: of the data, as it came. attempt: from 1
    public final String key; // the same for every attempt and delivery: what to give another system as the idempotency key
    final String taken;
    final Map<String, JsonNode> changes = new LinkedHashMap<>();

    Context(Connection connection, JsonNode row) {
        this.connection = connection;
        scope = row.path("scope").asText();
        saga = row.path("key").asText();
        definition = row.path("definition").asText();
        step = row.path("step").asText();
        version = row.path("version").asInt();
        attempt = row.path("attempt").asInt();
        key = saga + ":" + step + (row.path("is_compensation").asBoolean() ? ".compensate" : "");
        taken = row.path("taken").toString();
    }

    /** Executes a statement with its values, and returns how many rows it has changed. */
    public int update(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = Participant.prepare(connection, sql, values)) {
            return statement.executeUpdate();
        }
    }

    /** Changes one member of the data that goes on. All others go on as they came, also those that the step's type does not have. */
    public void set(String member, Object value) { changes.put(member, Participant.json.valueToTree(value)); }

    /** Sends a message of your own if the step commits, at least once. ifUnrouted: `keep` until a queue is bound, or `drop`. */
    public void publish(String destination, String type, Object body, String ifUnrouted) throws Exception {
        byte[] bytes = Participant.json.writeValueAsBytes(body);
        Participant.query(connection, "SELECT skald.publish(?::jsonb, ?, ?, ?, ?)", taken, destination, type, bytes, ifUnrouted);
    }
}
