package skald;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLWarning;

/** The connections of a service's steps, and statements on them. */
final class Database {
    final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();
    private final String service;

    Database(String service) { this.service = service; }

    /** In a transaction. */
    Connection open(String url) throws SQLException {
        Connection connection = idle.poll();
        return connection != null && !connection.isClosed() ? connection : Servers.database(url, service);
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
