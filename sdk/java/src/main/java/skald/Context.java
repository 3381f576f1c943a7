package skald;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.ByteArrayInputStream;
import java.io.CharArrayReader;
import java.io.Closeable;
import java.io.StringReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Array;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Clob;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLClientInfoException;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.postgresql.PGResultSetMetaData;
import org.postgresql.PGStatement;

/** What a step can use while it runs. It must not be kept: once the step has ended, it refuses. */
public final class Context {
    volatile Connection connection; // null: the step has ended
    volatile boolean isOver; // it has ended Skald's transaction, or tried to, and was told so there
    JsonNode row = MissingNode.getInstance(); // what skald.take() said
    final Map<String, JsonNode> changes = new LinkedHashMap<>();

    private static final String ended = "the step has ended: what it does with `ctx` comes before that";
    private final AtomicInteger calls = new AtomicInteger(); // of what was lent, that have not returned
    private final Connection lent;

    /** All that it gives refuses with it: what a step's thread still had would write in the next step's transaction. */
    private final class Lent implements InvocationHandler {
        private static final List<Class<?>> types = List.of(CallableStatement.class, PreparedStatement.class, Statement.class, ResultSet.class,
            DatabaseMetaData.class, ResultSetMetaData.class, Array.class, Blob.class, Clob.class); // what can ask the server, or gives what can
        private static final List<Class<?>> inMemory = List.of(ByteArrayInputStream.class, CharArrayReader.class, StringReader.class);
        private final Object real;

        private Lent(Object real) { this.real = real; }

        private <T> T as(Class<T> type) {
            Class<?>[] all = Stream.of(type, PGStatement.class, PGResultSetMetaData.class).filter(one -> one.isInstance(real)).toArray(Class[]::new);
            return type.cast(Proxy.newProxyInstance(Context.class.getClassLoader(), all, this));
        }

        private Object of(Object made) {
            if (made instanceof Connection) return lent;
            for (Class<?> type : types) if (type.isInstance(made)) return new Lent(made).as(type);
            return made;
        }

        /** After these, a later use can't be refused, so the connection is closed with the step. */
        private static boolean isPast(String call, Object made) {
            return call.equals("unwrap") || call.equals("setNetworkTimeout")
                || made instanceof Closeable && inMemory.stream().noneMatch(type -> type.isInstance(made)); // a stream, Reader or Writer
        }

        private static Object realOf(Object value) {
            return value != null && Proxy.isProxyClass(value.getClass()) && Proxy.getInvocationHandler(value) instanceof Lent one ? one.real : value;
        }

        /** As of what is closed. */
        private Object late(String call, Object[] values, boolean mayThrow) throws Exception {
            return switch (call) {
                case "close", "free", "abort" -> null;
                case "isClosed" -> true;
                case "isValid" -> false;
                case "equals" -> real == realOf(values[0]);
                case "hashCode" -> real.hashCode();
                case "toString" -> real.getClass().getName() + " of a step that has ended"; // an Array's may ask the server
                case "setClientInfo" -> throw new SQLClientInfoException(ended, Map.of());
                default -> throw mayThrow ? new SQLException(ended) : new IllegalStateException(ended);
            };
        }

        @Override public Object invoke(Object proxy, Method method, Object[] values) throws Throwable {
            if (real instanceof Connection && method.getName().equals("close")) return null;
            calls.incrementAndGet(); // first: see isKept()
            try {
                if (connection == null) return late(method.getName(), values, method.getExceptionTypes().length > 0);
                for (int i = 0; values != null && i < values.length; ++i) values[i] = realOf(values[i]);
                Object made = method.invoke(real, values);
                if (!isPast(method.getName(), made)) return of(made);
                calls.incrementAndGet(); // from here on
                return made;
            } catch (InvocationTargetException thrown) {
                if (Database.stateOf(thrown.getCause()).equals("2D000")) isOver = true;
                throw thrown.getCause();
            } finally {
                calls.decrementAndGet();
            }
        }
    }

    Context(Connection connection) {
        this.connection = connection;
        lent = new Lent(connection).as(Connection.class);
    }

    /** Whether something may be done with the connection yet. Once it is null here, false is final. */
    boolean isKept() { return calls.get() > 0; }

    private void refuseLate() {
        if (connection == null) throw new IllegalStateException(ended);
    }

    /** In Skald's transaction: do not end it. close() does nothing, as `try (var c = ctx.connection())` would lose the transaction. What
     * unwrap() gives and the streams of a Blob can't refuse later: after them the connection is closed with the step, and the next waits for a new one. */
    public Connection connection() {
        refuseLate();
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
        try (PreparedStatement statement = Database.prepare(connection(), sql, values)) {
            return statement.executeUpdate();
        }
    }

    /** Changes one member of the data that goes on. All others go on as they came, also those that the step's type does not have. */
    public void set(String member, Object value) {
        refuseLate();
        changes.put(member, Data.json.valueToTree(value));
    }

    /** Sends a message of your own if the step commits, at least once. ifUnrouted: `keep` until a queue is bound, or `drop`. */
    public void publish(String destination, String type, Object body, String ifUnrouted) throws Exception {
        byte[] bytes = Data.json.writeValueAsBytes(body);
        Database.query(connection(), "SELECT skald.publish(?::jsonb, ?, ?, ?, ?)", taken(), destination, type, bytes, ifUnrouted);
    }
}
