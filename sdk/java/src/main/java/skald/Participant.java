package skald;

import static skald.Data.json;
import static skald.Database.believe;
import static skald.Database.query;
import static skald.Database.release;
import static skald.Database.stateOf;
import static skald.Text.line;
import static skald.Text.text;
import static skald.Text.texts;
import static skald.Text.utf8;
import static skald.Text.why;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import sun.misc.Signal;

/** A service's process, whose steps happen once in effect each: a step runs in the transaction of a JDBC connection with the record that it ran
 * and the message to the next step. docs/languages.md has an example. Set what differs, and add the steps, before connect() or run(). */
public final class Participant implements AutoCloseable {
    private record Step(Options options, List<Work<JsonNode>> works) {} // the step and, if it has one, its compensation

    private static final System.Logger log = System.getLogger("skald");
    private static final List<Signal> signals = List.of(new Signal("TERM"), new Signal("INT"));
    private static final Set<String> contention = Set.of("40001", "40P01", "55P03");
    private static final Set<String> wrong = Set.of("", "P0001", "22023", "3F000", "42883", "42501"); // a URL, the database or the steps
    private static final int contendedMax = 50, lostMax = 5; // in a row, before they count as an attempt of the step

    public String databaseUrl = System.getenv("DATABASE_URL"), amqpUrl = System.getenv("AMQP_URL");
    public int lanes = 4; // how many deliveries are processed at a time, each on a connection of its own
    public boolean declare = true; // false: `skald declare` has made the queues, and this user may not
    String signatures = System.getenv().getOrDefault("SKALD_SIGNATURES", "");
    long idleMax = TimeUnit.SECONDS.toNanos(30); // of silence, before the server ends a transaction
    private final String service;
    private final Map<String, Step> steps = new TreeMap<>();
    final Database connections;
    final CompletableFuture<Void> stopped = new CompletableFuture<>();
    private final ObjectNode said = json.createObjectNode(); // of each step, for the SQL functions
    private volatile String database;

    public Participant(String service) {
        this.service = service;
        connections = new Database(service);
    }

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
        Data.check(name, type);
        var typed = works.stream().<Work<JsonNode>>map(work -> (ctx, document) -> work.run(ctx, Data.read(document.deepCopy(), type))).toList();
        if (steps.putIfAbsent(name, new Step(options.say("kind", kind), typed)) != null)
            throw new IllegalArgumentException("step " + name + " is there twice");
        said.set(name, json.valueToTree(options.said));
        return this;
    }

    /** The database must be this service's. What is wrong with the steps is said here. */
    public void connect() throws SQLException {
        int most = ConnectionFactory.DEFAULT_CHANNEL_MAX - 1; // a lane has a channel, and the parked queue another
        if (lanes < 1 || lanes > most) throw new IllegalArgumentException("lanes are 1 to " + most + ", and not " + lanes);
        if (!Set.of("", "off", "sign").contains(signatures)) throw new IllegalArgumentException("SKALD_SIGNATURES=" + signatures
            + ": this SDK does not verify signatures: let a C++ service run these steps, or unset it");
        try {
            database = connections.one(databaseUrl, "SELECT skald.host(?, ?::jsonb)::text", service, said.toString());
        } catch (SQLException error) {
            if (!Set.of("3F000", "42883").contains(stateOf(error))) throw error; // no schema, or an older one
            throw new SQLException(error.getMessage() + "\nrun `skald migrate --service " + service + "`", error.getSQLState(), error);
        }
    }

    /** Processes a delivery, which can be acked afterwards; returns what happened, by the name that logs use. givenUp: it is in the queue
     * `skald.SERVICE.parked` by the delivery limit, or came back from there. Throws only if the database can't be reached or refuses what Skald
     * itself writes, or if it was to be run again when the process was told to stop, and nothing has happened; or if a failover may lose what has. */
    public String process(Delivery message, boolean givenUp) throws SQLException {
        for (int contended = 0, lost = 0;;) {
            Connection connection = open();
            long began = System.nanoTime();
            Context ctx = new Context(connection);
            try {
                String event = deliver(connection, ctx, message, givenUp);
                connection.clearWarnings();
                if (ctx.connection != null) connection.commit(); // no step ran; else it has, and what a thread writes behind it is undone
                believe(connection.getWarnings());
                ctx.connection = null;
                connections.givenBack(connection, ctx.isKept());
                return event;
            } catch (Throwable thrown) {
                Throwable error = withText(thrown);
                ctx.isOver |= ctx.connection == null; // done() said it
                ctx.connection = null;
                boolean isLost = !connections.givenBack(connection, ctx.isKept()), isTaken = ctx.row.hasNonNull("taken");
                String state = stateOf(error);
                if (error instanceof Database.InDoubt doubt) throw doubt;
                boolean isPassing = contention.contains(state) && ++contended < contendedMax
                    || isLost && ++lost < lostMax && System.nanoTime() - began < idleMax;
                if (isTaken && !isPassing) return end(message, ctx, error);
                if (!isPassing || stopped.isDone()) throw error instanceof SQLException refused ? refused : new SQLException(error);
                pause(5 * (1 << Math.min(contended + lost, 5)));
            }
        }
    }

    private String end(Delivery message, Context ctx, Throwable error) throws SQLException {
        String call = error instanceof Reject ? "reject(?)" : error instanceof Malformed ? "give_up('malformed', ?)"
            : error instanceof Snooze ? "snooze(?::interval)"
            : ctx.isOver && stateOf(error).equals("2D000") ? "give_up('transaction_ended', ?)" : "fail(?)";
        boolean isFault = call.startsWith("fail");
        String id = message.getProperties().getMessageId(), why = text(utf8(isFault ? error.toString() : error.getMessage()));
        if (isFault) log.log(Level.WARNING, line(id + " failed"), Text.Said.of(error));
        String event = connections.one(databaseUrl, "SELECT skald." + call.replace("(", "(?::jsonb, ?, "), ctx.taken(), message.getBody(), why);
        if (event.endsWith(".parked")) log.log(Level.ERROR, line(event + " of " + id + ": " + why));
        return event;
    }

    private String deliver(Connection connection, Context ctx, Delivery message, boolean givenUp) throws Exception {
        var sent = message.getProperties();
        JsonNode row = ctx.row = json.readTree(query(connection,
            "SELECT (to_jsonb(t) - 'data')::text FROM skald.take(?, ?::jsonb, ?, ?::jsonb, ?, ?, ?) AS t",
            text(utf8(sent.getType())), json.valueToTree(texts(sent.getHeaders())).toString(), message.getBody(), said.toString(),
            text(utf8(sent.getMessageId())), sent.getContentType() == null ? "application/json" : text(utf8(sent.getContentType())), givenUp));
        String event = row.path("event").asText();
        if (event.endsWith(".parked")) log.log(Level.ERROR, line(event + " of " + sent.getMessageId() + ": " + row.path("why").asText()));
        if (!row.path("verdict").asText().equals("run")) return event;
        Step step = steps.get(ctx.definition() + "/" + ctx.step());
        Integer version = step.options.upcast == null || ctx.version() >= step.options.version ? null : step.options.version;
        JsonNode came = json.readTree(message.getBody()), data = version == null ? came : step.options.upcast.apply(came, ctx.version());
        step.works.get(row.path("is_compensation").asBoolean() ? 1 : 0).run(ctx, data);
        ctx.connection = null;
        release(connection);
        boolean isChanged = !ctx.changes.isEmpty(); // what has not changed goes on as it came, to the byte and the version
        byte[] next = isChanged ? json.writeValueAsBytes(((ObjectNode) data).setAll(ctx.changes)) : message.getBody();
        // One statement: if another thread's failed between done() and COMMIT, the server would roll back, and the driver would not say so.
        query(connection, "SELECT skald.done(?::jsonb, ?, ?::integer); COMMIT", ctx.taken(), next, isChanged ? version : null);
        return "step.completed";
    }

    /** By itself: to a container's first process, the default action of a signal does nothing. */
    private static void halt(Signal second) { Runtime.getRuntime().halt(128 + second.getNumber()); }

    private void stop(Signal signal) {
        for (Signal each : signals) Signal.handle(each, Participant::halt); // a step may hang
        log.log(Level.INFO, "SIG{0}: {1} waits for the steps under way; a second signal ends it at once", signal.getName(), service);
        stopped.complete(null);
    }

    /** Processes what comes until SIGTERM or SIGINT. Connections that are lost are opened again; at the start, what is wrong is thrown. */
    public void run() throws Exception {
        for (Signal each : signals) Signal.handle(each, this::stop);
        ConnectionFactory brokers = Broker.at(amqpUrl);
        while (!stopped.isDone()) {
            try {
                consume(brokers);
            } catch (Exception error) {
                if (error instanceof IllegalStateException || database == null && wrong.contains(stateOf(error))) throw error;
                log.log(Level.WARNING, "trying again with new connections: " + why(error));
                pause(2000);
            }
        }
        close();
    }

    @Override public void close() throws SQLException { connections.close(); }

    private void consume(ConnectionFactory factory) throws Exception {
        connect();
        CompletableFuture<Void> failed = new CompletableFuture<>(), acked = new CompletableFuture<>();
        Semaphore working = new Semaphore(lanes + 1); // one for each channel
        ExecutorService threads = Executors.newFixedThreadPool(lanes + 1);
        try (com.rabbitmq.client.Connection broker = factory.newConnection(threads)) {
            if (broker.getChannelMax() <= lanes) throw new IllegalStateException(lanes + " lanes use " + (lanes + 1)
                + " channels, and the broker allows " + broker.getChannelMax() + " on a connection: take fewer, or raise its channel_max");
            for (int lane = 0; lane <= lanes; ++lane) {
                boolean givenUp = lane == 0;
                // After a crash, the delivery that caused it is first in the queue. Take it alone, so that no other is counted with it. After 10 s take
                // more: it may only wait for a lock.
                if (lane == 2) CompletableFuture.anyOf(acked.completeOnTimeout(null, 10, TimeUnit.SECONDS), stopped, failed).exceptionally(e -> null).join();
                if (failed.isDone() || stopped.isDone()) break; // what is told to end gives back what it gets, and that counts
                Channel channel = broker.createChannel();
                channel.addShutdownListener(failed::completeExceptionally);
                if (givenUp) Broker.declareQueues(channel, service, database, declare);
                channel.basicQos(lane < 2 ? 1 : 2);
                channel.basicConsume("skald." + service + (givenUp ? ".parked" : ""), false, (tag, delivery) -> {
                    // It ends, and what is not acked comes again. Without asking first, the lanes of a backlog would never be idle together.
                    if (stopped.isDone() || failed.isDone() || !working.tryAcquire()) return;
                    try {
                        if (!processKept(delivery, givenUp && Broker.isLimit(delivery), failed)) return;
                        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
                        if (!givenUp) acked.complete(null);
                    } catch (Exception error) {
                        failed.completeExceptionally(error);
                    } finally {
                        working.release();
                    }
                }, tag -> failed.completeExceptionally(new IOException("the broker has cancelled the consumer")));
                if (lane == 1) log.log(Level.INFO, service + " is ready");
            }
            CompletableFuture.anyOf(stopped, failed).exceptionally(error -> null).join();
            working.acquireUninterruptibly(lanes + 1); // what is under way is done
            failed.getNow(null); // throws what broke
        } finally {
            threads.shutdown();
        }
    }

    /** False: told to stop, or there is no broker to be told. Whatever else fails, it is kept: given back, all that is not acked would count as
     * delivered once more, of 50 times. */
    boolean processKept(Delivery message, boolean givenUp, CompletableFuture<Void> failed) throws SQLException {
        for (int tries = 0; !stopped.isDone() && !failed.isDone(); ++tries) {
            try {
                process(message, givenUp);
                return true;
            } catch (SQLException error) {
                // Once in some two minutes.
                if (tries % 100 == 0) log.log(Level.WARNING,
                    line(message.getProperties().getMessageId() + " is kept until the database takes it: ") + why(error));
                close(); // the server may have become a standby
                pause(2000);
            }
        }
        return false;
    }

    /** A connection like those of the steps, in a transaction. The caller ends and closes it. */
    public Connection open() throws SQLException { return connections.open(databaseUrl); }

    /** What was thrown; or, where it can't be made text, an error that says so. */
    private static Throwable withText(Throwable thrown) {
        try {
            return (Text.Said.of(thrown) + stateOf(thrown)).isEmpty() ? null : thrown;
        } catch (Throwable none) {
            return new IllegalStateException("a " + thrown.getClass().getName() + " was thrown, which can't be made text");
        }
    }

    private static void pause(int longest) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(ThreadLocalRandom.current().nextInt(longest)));
    }
}
