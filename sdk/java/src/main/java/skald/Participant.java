package skald;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.LongString;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A service's process, whose steps happen once in effect each: a step runs in the transaction of a JDBC connection with the record that it ran
 * and the message to the next step. docs/languages.md has an example. Set what differs, and add the steps, before connect() or run(). */
public final class Participant implements AutoCloseable {
    private record Step(Options options, List<Work<JsonNode>> works) {} // the step and, if it has one, its compensation

    static final JsonMapper json = JsonMapper.builder().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
        .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS).disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
        .disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS).build();
    private static final System.Logger log = System.getLogger("skald");
    private static final Set<String> contention = Set.of("40001", "40P01", "55P03");
    private static final Set<String> wrong = Set.of("P0001", "22023", "3F000", "42883", "42501"); // the database or the steps
    private static final int contendedMax = 50, lostMax = 5; // in a row, before they count as an attempt of the step

    public String databaseUrl = System.getenv("DATABASE_URL"), amqpUrl = System.getenv("AMQP_URL");
    public int lanes = 4; // how many deliveries are processed at a time, each on a connection of its own
    public boolean declare = true; // false: `skald declare` has made the queues, and this user may not
    private final String service;
    private final Map<String, Step> steps = new TreeMap<>();
    final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();
    final CompletableFuture<Void> stopped = new CompletableFuture<>();
    private final ObjectNode said = json.createObjectNode(); // of each step, for the SQL functions
    private volatile String database;

    public Participant(String service) { this.service = service; }

    /** A step that may reject and can be undone. */
    public <D> Participant compensatable(String definition, String step, Class<D> type, Work<D> execute, Work<D> compensate, Options options) {
        return add(definition + "/" + step, "compensatable", type, options, List.of(execute, compensate));
    }

    /** The point of no return: it may reject, and can't be undone. */
    public <D> Participant pivot(String definition, String step, Class<D> type, Work<D> execute, Options options) {
        return add(definition + "/" + step, "pivot", type, options, List.of(execute));
    }

    /** A step after the pivot: it is tried until it succeeds. */
    public <D> Participant retriable(String definition, String step, Class<D> type, Work<D> execute, Options options) {
        return add(definition + "/" + step, "retriable", type, options, List.of(execute));
    }

    private <D> Participant add(String name, String kind, Class<D> type, Options options, List<Work<D>> works) {
        var typed = works.stream().<Work<JsonNode>>map(work -> (ctx, document) -> work.run(ctx, read(document, type))).toList();
        if (steps.putIfAbsent(name, new Step(options.say("kind", kind), typed)) != null)
            throw new IllegalArgumentException("step " + name + " is there twice");
        said.set(name, json.valueToTree(options.said));
        return this;
    }

    private static <D> D read(JsonNode document, Class<D> type) {
        try {
            return json.treeToValue(document, type);
        } catch (JsonProcessingException wrong) {
            throw new Malformed(wrong.getOriginalMessage());
        }
    }

    /** The database must be this service's. What is wrong with the steps is said here. */
    public void connect() throws SQLException {
        try {
            database = one("SELECT skald.host(?, ?::jsonb)::text", service, said.toString());
        } catch (SQLException error) {
            if (!Set.of("3F000", "42883").contains(String.valueOf(error.getSQLState()))) throw error; // no schema, or an older one
            throw new SQLException(error.getMessage() + "\nrun `skald migrate --service " + service + "`", error.getSQLState(), error);
        }
    }

    /** Processes a delivery, which can be acked afterwards; returns what happened, by the name that logs use. givenUp: it came from the queue
     * `skald.SERVICE.parked`. Throws only if the database can't be reached or refuses what Skald itself writes: then nothing has happened. */
    public String process(Delivery message, boolean givenUp) throws SQLException {
        for (int contended = 0, lost = 0;;) {
            String[] taken = {null};
            Connection connection = open();
            try {
                String event = deliver(connection, message, givenUp, taken);
                connection.commit();
                return event;
            } catch (Throwable error) {
                boolean isLost = !undone(connection);
                SQLException refused = sqlIn(error);
                String state = refused == null ? "" : String.valueOf(refused.getSQLState());
                if (contention.contains(state) && (taken[0] == null || ++contended < contendedMax)) pause(5 * (1 << Math.min(contended, 5)));
                else if (taken[0] == null) throw refused != null ? refused : new SQLException(error);
                else if (!isLost || ++lost >= lostMax) return end(message, taken[0], error, state);
            } finally {
                if (!connection.isClosed()) idle.push(connection);
            }
        }
    }

    private String end(Delivery message, String taken, Throwable error, String state) throws SQLException {
        byte[] body = message.getBody();
        String why = text(utf8(error.getMessage()));
        if (error instanceof Reject) return one("SELECT skald.reject(?::jsonb, ?, ?)", taken, body, why);
        if (error instanceof Malformed) return one("SELECT skald.give_up(?::jsonb, ?, 'malformed', ?)", taken, body, why);
        if (error instanceof Snooze) return one("SELECT skald.snooze(?::jsonb, ?, ?::interval)", taken, body, why);
        log.log(System.Logger.Level.WARNING, message.getProperties().getMessageId() + " failed", error);
        if (state.equals("2D000")) return one("SELECT skald.give_up(?::jsonb, ?, 'transaction_ended', ?)", taken, body, why);
        return one("SELECT skald.fail(?::jsonb, ?, ?)", taken, body, error.getClass().getSimpleName() + ": " + why);
    }

    private String deliver(Connection connection, Delivery message, boolean givenUp, String[] taken) throws Exception {
        var sent = message.getProperties();
        JsonNode row = json.readTree(query(connection, "SELECT to_jsonb(t) - 'data' FROM skald.take(?, ?::jsonb, ?, ?::jsonb, ?, ?, ?) AS t",
            text(utf8(sent.getType())), json.valueToTree(texts(sent.getHeaders())).toString(), message.getBody(), said.toString(),
            text(utf8(sent.getMessageId())), sent.getContentType() == null ? "application/json" : text(utf8(sent.getContentType())), givenUp));
        String event = row.path("event").asText();
        if (event.equals("delivery.parked") || event.equals("step.parked"))
            log.log(System.Logger.Level.ERROR, event + " of " + sent.getMessageId() + ": " + row.path("why").asText());
        if (!row.path("verdict").asText().equals("run")) return event;
        Context ctx = new Context(connection, row);
        taken[0] = ctx.taken;
        Step step = steps.get(ctx.definition + "/" + ctx.step);
        Integer version = step.options.upcast == null || ctx.version >= step.options.version ? null : step.options.version;
        JsonNode came = json.readTree(message.getBody()), data = version == null ? came : step.options.upcast.apply(came, ctx.version);
        step.works.get(row.path("is_compensation").asBoolean() ? 1 : 0).run(ctx, data);
        boolean isChanged = !ctx.changes.isEmpty(); // what has not changed goes on as it came, to the byte and the version
        byte[] next = isChanged ? json.writeValueAsBytes(((ObjectNode) data).setAll(ctx.changes)) : message.getBody();
        // In one: if a statement of another thread could fail between them, COMMIT would undo the step, which the driver takes for success.
        query(connection, "SELECT skald.done(?::jsonb, ?, ?::integer); COMMIT", ctx.taken, next, isChanged ? version : null);
        return "step.completed";
    }

    /** Processes what comes until SIGTERM or SIGINT. Connections that are lost are opened again; at the start, what is wrong is thrown. */
    public void run() throws SQLException, InterruptedException {
        for (String name : List.of("TERM", "INT")) sun.misc.Signal.handle(new sun.misc.Signal(name), signal -> stopped.complete(null));
        while (!stopped.isDone()) {
            try {
                consume();
            } catch (Exception error) {
                if (database == null && error instanceof RuntimeException fault) throw fault;
                if (database == null && error instanceof SQLException sql && wrong.contains(String.valueOf(sql.getSQLState()))) throw sql;
                log.log(System.Logger.Level.WARNING, "trying again with new connections: " + error);
                pause(2000);
            }
        }
        close();
    }

    @Override
    public void close() throws SQLException {
        for (Connection connection; (connection = idle.poll()) != null;) connection.close();
    }

    private void consume() throws Exception {
        connect();
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(amqpUrl);
        factory.setAutomaticRecoveryEnabled(false);
        CompletableFuture<Void> failed = new CompletableFuture<>();
        Semaphore working = new Semaphore(lanes + 1); // one for each channel
        ExecutorService threads = Executors.newFixedThreadPool(lanes + 1);
        try (com.rabbitmq.client.Connection broker = factory.newConnection(threads)) {
            broker.addShutdownListener(failed::completeExceptionally);
            for (int lane = 0; lane <= lanes; ++lane) {
                boolean givenUp = lane == 0;
                Channel channel = broker.createChannel();
                if (lane == 0 && declare) declareQueues(channel);
                channel.basicQos(2);
                channel.basicConsume("skald." + service + (givenUp ? ".parked" : ""), false, (tag, delivery) -> {
                    // It ends, and what is not acked comes again. Without asking first, the lanes of a backlog would never be idle together.
                    if (stopped.isDone() || failed.isDone() || !working.tryAcquire()) return;
                    try {
                        if (processKept(delivery, givenUp, failed)) channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
                    } catch (Exception error) {
                        failed.completeExceptionally(error);
                    } finally {
                        working.release();
                    }
                }, tag -> failed.completeExceptionally(new IOException("the broker has cancelled the consumer")));
            }
            log.log(System.Logger.Level.INFO, service + " is ready");
            try {
                CompletableFuture.anyOf(stopped, failed).get();
            } finally {
                working.acquireUninterruptibly(lanes + 1);
            }
        } finally {
            threads.shutdown();
            threads.awaitTermination(1, TimeUnit.MINUTES);
        }
    }

    /** False: told to stop, or there is no broker to be told. Whatever else fails, it is kept: given back, all that is not acked would count as
     * delivered once more, of 50 times. */
    private boolean processKept(Delivery message, boolean givenUp, CompletableFuture<Void> failed) throws SQLException {
        for (int tries = 0; !stopped.isDone() && !failed.isDone(); ++tries) {
            try {
                process(message, givenUp);
                return true;
            } catch (SQLException error) {
                if (tries % 100 == 0) // once in some two minutes
                    log.log(System.Logger.Level.WARNING, message.getProperties().getMessageId() + " is kept until the database takes it: " + error);
                close(); // the server may have become a standby
                pause(2000);
            }
        }
        return false;
    }

    /** The queues of docs/protocol.md, "Routing". The first is bound to this database: a process with another one is refused. */
    private void declareQueues(Channel channel) throws IOException {
        String queue = "skald." + service;
        Map<String, Object> quorum = Map.of("x-queue-type", "quorum"), left = new HashMap<>(quorum), limited = new HashMap<>(quorum);
        left.putAll(Map.of("x-dead-letter-exchange", "skald.parked", "x-dead-letter-routing-key", database));
        limited.putAll(Map.of("x-dead-letter-exchange", "skald.parked", "x-dead-letter-routing-key", service, "x-delivery-limit", 50,
            "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish"));
        channel.queueDeclare(queue + ".database", true, false, false, left);
        channel.queueDeclare(queue, true, false, false, limited);
        channel.queueDeclare(queue + ".parked", true, false, false, quorum);
        for (String exchange : List.of("skald", "skald.parked")) channel.exchangeDeclare(exchange, "direct", true);
        channel.queueBind(queue, "skald", service);
        channel.queueBind(queue + ".parked", "skald.parked", service);
    }

    /** A connection like those of the steps, in a transaction. The caller ends and closes it. */
    public Connection open() throws SQLException {
        Connection connection = idle.poll();
        if (connection != null && !connection.isClosed()) return connection;
        Properties settings = new Properties();
        String url = databaseUrl;
        if (!url.startsWith("jdbc:")) { // postgresql://user:password@host:port/database?more
            URI read = URI.create(url);
            String[] user = read.getUserInfo() == null ? new String[0] : read.getUserInfo().split(":", 2);
            if (user.length > 0) settings.put("user", user[0]);
            if (user.length > 1) settings.put("password", user[1]);
            url = "jdbc:postgresql://" + read.getRawAuthority().replaceFirst("^.*@", "") + read.getRawPath()
                + (read.getRawQuery() == null ? "" : "?" + read.getRawQuery());
        }
        settings.put("ApplicationName", "skald/" + service);
        settings.put("options", "-c lock_timeout=5000 -c statement_timeout=30000 -c idle_in_transaction_session_timeout=30000");
        if (!url.contains("targetServerType=")) settings.put("targetServerType", "primary");
        connection = DriverManager.getConnection(url, settings);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        connection.setAutoCommit(false);
        return connection;
    }

    /** False if the connection is lost. */
    private static boolean undone(Connection connection) throws SQLException {
        try {
            connection.rollback();
            return true;
        } catch (SQLException lost) {
            connection.close();
            return false;
        }
    }

    /** The one value of a statement, in a transaction of its own. */
    private String one(String sql, Object... values) throws SQLException {
        Connection connection = open();
        try {
            String value = query(connection, sql, values);
            connection.commit();
            return value;
        } finally {
            if (undone(connection)) idle.push(connection);
        }
    }

    static String query(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(connection, sql, values)) {
            return statement.execute() && statement.getResultSet().next() ? statement.getResultSet().getString(1) : null;
        }
    }

    static PreparedStatement prepare(Connection connection, String sql, Object... values) throws SQLException {
        PreparedStatement made = connection.prepareStatement(sql);
        for (int i = 0; i < values.length; ++i) made.setObject(i + 1, values[i]);
        return made;
    }

    private static SQLException sqlIn(Throwable error) {
        return error == null || error instanceof SQLException ? (SQLException) error : sqlIn(error.getCause());
    }

    private static void pause(int longest) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(ThreadLocalRandom.current().nextInt(longest)));
    }

    /** As text. What has no text form is left out: then take() says which header is missing. */
    private static Map<String, String> texts(Map<String, Object> headers) {
        Map<String, String> made = new TreeMap<>();
        (headers == null ? Map.<String, Object>of() : headers).forEach((name, value) -> {
            byte[] bytes = value instanceof LongString s ? s.getBytes() : value instanceof byte[] b ? b
                : value instanceof Date d ? utf8(String.valueOf(d.getTime() / 1000))
                : value instanceof String || value instanceof Boolean || value instanceof Integer || value instanceof Long || value instanceof Short
                    || value instanceof Byte ? utf8(value.toString()) : null;
            if (bytes != null) made.put(text(utf8(name)), text(bytes));
        });
        return made;
    }

    private static byte[] utf8(String value) { return (value == null ? "" : value).getBytes(StandardCharsets.UTF_8); }

    /** What a text column takes: bytes that are no UTF-8 as \xNN. */
    private static String text(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        CharBuffer out = CharBuffer.allocate(bytes.length * 4);
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        for (CoderResult result; (result = decoder.decode(in, out, true)).isMalformed();)
            for (int i = 0; i < result.length(); ++i) out.put(String.format("\\x%02x", in.get()));
        return out.flip().toString().replace("\0", "\\x00");
    }
}
