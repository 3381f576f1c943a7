package skald;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** What a step can use while it runs. It must not be kept: once the step has ended, it refuses. */
public final class Context {
    volatile Connection connection; // null: the step has ended
    JsonNode row = MissingNode.getInstance(); // what skald.take() said
    final Map<String, JsonNode> changes = new LinkedHashMap<>();

    private final Connection lent = (Connection) Proxy.newProxyInstance(Connection.class.getClassLoader(), new Class<?>[] {Connection.class},
        (proxy, method, values) -> {
            if (method.getName().equals("close")) return null;
            try {
                return method.invoke(open(), values);
            } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
            }
        });

    Context(Connection connection) { this.connection = connection; }

    private Connection open() { return Objects.requireNonNull(connection, "the step has ended"); }

    /** In Skald's transaction: do not end it. close() does nothing, as `try (var c = ctx.connection())` would lose the transaction. */
    public Connection connection() {
        open();
        return lent;
    }

    public String scope() { return row.path("scope").asText(); }
    public String saga() { return row.path("key").asText(); } // its key
    public String definition() { return row.path("definition").asText(); }
    public String step() { return row.path("step").asText(); }
    public int version() { return row.path("version").asInt(); } // of the data, as it came
    public int attempt() { return row.path("attempt").asInt(); } // from 1
    String taken() { return row.path("taken").toString(); }

    /** The same for every attempt and delivery: what to give another system as the idempotency key. */
    public String key() { return saga() + ":" + step() + (row.path("is_compensation").asBoolean() ? ".compensate" : ""); }

    /** Executes a statement with its values, and returns how many rows it has changed. */
    public int update(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = Participant.prepare(connection(), sql, values)) {
            return statement.executeUpdate();
        }
    }

    /** Changes one member of the data that goes on. All others go on as they came, also those that the step's type does not have. */
    public void set(String member, Object value) { changes.put(member, Participant.json.valueToTree(value)); }

    /** Sends a message of your own if the step commits, at least once. ifUnrouted: `keep` until a queue is bound, or `drop`. */
    public void publish(String destination, String type, Object body, String ifUnrouted) throws Exception {
        byte[] bytes = Participant.json.writeValueAsBytes(body);
        Participant.query(connection(), "SELECT skald.publish(?::jsonb, ?, ?, ?, ?)", taken(), destination, type, bytes, ifUnrouted);
    }
}
