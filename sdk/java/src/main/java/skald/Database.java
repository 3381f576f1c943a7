package skald;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.Driver;
import org.postgresql.PGConnection;
import org.postgresql.PGProperty;
import org.postgresql.util.PSQLWarning;

/** What DATABASE_URL names: the connections of a service's steps, and statements on them. */
final class Database {
    private static final String host = "(?:\\[[^]@/?]*]|[^@/?:,]*)(?::[0-9]{1,5})?";
    private static final Pattern libpq = Pattern.compile("(?s)(?!.*%(?!\\p{XDigit}{2}))(?:jdbc:)?postgres(?:ql)?://"
        + "(?:(?<user>[^:@/]*)(?::(?<password>[^@/]*))?@)?(?<rest>" + host + "(?:," + host + ")*/[^@/?]*(?:\\?.*)?)");
    // Of a wrong one the driver says that it can't connect, as it does of a server that is away.
    private static final List<PGProperty> chosen = List.of(PGProperty.SSL_MODE, PGProperty.GSS_ENC_MODE,
        PGProperty.CHANNEL_BINDING, PGProperty.TARGET_SERVER_TYPE, PGProperty.PROTOCOL_VERSION, PGProperty.AUTOSAVE);
    private static final Set<PGProperty> exact = Set.of(PGProperty.CHANNEL_BINDING, PGProperty.TARGET_SERVER_TYPE); // to the case

    final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();
    private final String service;

    Database(String service) { this.service = service; }

    /** In a transaction. */
    Connection open(String url) throws SQLException {
        Connection connection = idle.poll();
        return connection != null && !connection.isClosed() ? connection : connect(url);
    }

    private Connection connect(String named) throws SQLException {
        Matcher read = libpq.matcher(String.valueOf(named));
        // The driver quotes what it can't read, with the password.
        String url = read.matches() ? "jdbc:postgresql://" + read.group("rest") : "";
        Properties parsed = Driver.parseURL(url, new Properties()), settings = new Properties();
        if (parsed == null) throw new IllegalArgumentException("DATABASE_URL is not"
            + " postgresql://USER:PASSWORD@HOST:PORT/DATABASE" + Broker.escapes);
        for (PGProperty setting : chosen) {
            String value = setting.getOrDefault(parsed);
            List<String> choices = setting == PGProperty.PROTOCOL_VERSION ? List.of("3", "3.0", "3.2") : List.of(setting.getChoices());
            if (value != null && choices.stream().noneMatch(exact.contains(setting) ? value::equals : value::equalsIgnoreCase))
                throw new IllegalArgumentException("DATABASE_URL: " + setting.getName() + " is one of "
                    + String.join(", ", choices) + ", and not " + value);
        }
        for (String name : List.of("user", "password")) {
            String part = read.group(name);
            if (part != null) settings.put(name, URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8));
        }
        settings.putAll(Map.of("ApplicationName", "skald/" + service, "tcpKeepAlive", "true", "socketTimeout", "45",
            "targetServerType", "primary"));
        Connection made = DriverManager.getConnection(url, settings);
        made.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED); // not by an option of the startup, which poolers refuse
        made.setAutoCommit(false);
        return made;
    }

    /** Undoes what is open. isKept: something may be done with it yet, also behind the rollback. False if the connection is lost. */
    boolean givenBack(Connection connection, boolean isKept) throws SQLException {
        try {
            release(connection);
            connection.rollback();
            if (isKept) connection.close();
            else idle.push(connection);
            return true;
        } catch (IllegalStateException | SQLException error) {
            connection.close();
            return error instanceof IllegalStateException; // a COPY holds it: it is not lost
        }
    }

    /** Refuses a connection that a step's COPY holds: the driver would wait for its end, but not if interrupted.
     * Forgets an interrupt that the step has left behind, too. */
    static void release(Connection connection) throws SQLException {
        try {
            Thread.currentThread().interrupt();
            connection.unwrap(PGConnection.class).getNotifications(); // in a transaction, it does no more than that
        } catch (SQLException error) {
            if (!(error.getCause() instanceof InterruptedException)) throw error;
            throw new IllegalStateException("the step has left a COPY open");
        } finally {
            Thread.interrupted();
        }
    }

    /** The one value of a statement, in a transaction of its own. */
    String one(String url, String sql, Object... values) throws SQLException {
        Connection connection = open(url);
        try {
            return query(connection, sql + "; COMMIT", values);
        } finally {
            givenBack(connection, false);
        }
    }

    static String query(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(connection, sql, values)) {
            String value = statement.execute() && statement.getResultSet().next() ? statement.getResultSet().getString(1) : null;
            if (sql.endsWith("; COMMIT")) believe(statement.getWarnings());
            return value;
        }
    }

    static final class InDoubt extends SQLException {
        InDoubt(SQLWarning why) { super("committed, but possibly not durably: " + why.getMessage(), why); }
    }

    /** What the server has committed, if it has not stopped waiting for its standbys: a failover may lose that. */
    static void believe(SQLWarning warning) throws InDoubt {
        for (; warning != null; warning = warning.getNextWarning()) {
            boolean isRaised = warning instanceof PSQLWarning said && "exec_stmt_raise".equals(said.getServerErrorMessage().getRoutine());
            if ("01000".equals(warning.getSQLState()) && !isRaised) throw new InDoubt(warning); // a RAISE is a deferred trigger's
        }
    }

    static PreparedStatement prepare(Connection connection, String sql, Object... values) throws SQLException {
        PreparedStatement made = connection.prepareStatement(sql);
        for (int i = 0; i < values.length; ++i) made.setObject(i + 1, values[i]);
        return made;
    }

    static String stateOf(Throwable error) {
        for (int depth = 0; error != null && depth < 100; ++depth, error = error.getCause()) // a cause's cause may be itself
            if (error instanceof SQLException sql) return String.valueOf(sql.getSQLState());
        return "";
    }

    void close() throws SQLException {
        for (Connection connection; (connection = idle.poll()) != null;) connection.close();
    }
}
