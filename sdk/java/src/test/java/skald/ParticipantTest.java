package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A participant on a real PostgreSQL and RabbitMQ: DATABASE_URL, AMQP_URL (scripts/stack.sh), SKALD (the command line). */
class ParticipantTest {
    record Order(String id) {}

    static final String plan = "create@orders=compensatable charge@payments=compensatable ship@shipping=pivot pay-out@payments=retriable";
    static final byte[] body = bytes(" {\"id\": \"1\", \"cents\": 1.50, \"big\": 9007199254740993}");
    static final String server = System.getenv("DATABASE_URL");
    static final String name = "sdk_java_" + UUID.randomUUID().toString().replace("-", "");
    static final String url = server.substring(0, server.lastIndexOf('/') + 1) + name;
    static Connection db;

    final Deque<Work<Order>> acts = new ArrayDeque<>();
    final List<Context> ran = Collections.synchronizedList(new ArrayList<>());
    Participant shop;

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static Connection connected(String url) throws SQLException {
        String user = url.replaceFirst("^.*//([^@:/]*).*$", "$1");
        return DriverManager.getConnection("jdbc:postgresql://" + url.substring(url.indexOf('@') + 1), user, null);
    }

    @BeforeAll
    static void makeDatabase() throws Exception {
        try (Connection admin = connected(server)) {
            admin.createStatement().execute("CREATE DATABASE " + name);
        }
        skald("migrate");
        db = connected(url);
    }

    static void skald(String command) throws Exception {
        ProcessBuilder made = new ProcessBuilder(System.getenv("SKALD"), command, "--service", "payments").inheritIO();
        made.environment().put("DATABASE_URL", url);
        assertEquals(0, made.start().waitFor());
    }

    @AfterAll
    static void dropDatabase() throws Exception {
        db.close();
        try (Connection admin = connected(server)) {
            admin.createStatement().execute("DROP DATABASE " + name + " WITH (FORCE)");
        }
    }

    @BeforeEach
    void open() throws Exception {
        execute("DROP TABLE IF EXISTS wallet; CREATE TABLE wallet (cents int CHECK (cents >= 0)); INSERT INTO wallet VALUES (100)");
        for (String table : List.of("idempotency", "outbox", "parked", "hosted", "hosted_version")) execute("DELETE FROM skald." + table);
        shop = made("payments").compensatable("order", "charge", Order.class, (ctx, order) -> {
            ran.add(ctx);
            ctx.update("UPDATE wallet SET cents = cents - ?", 10);
            ctx.publish("mail", "charged", order, "keep");
            Work<Order> act = acts.poll();
            if (act != null) act.run(ctx, order);
        }, (ctx, order) -> ctx.update("UPDATE wallet SET cents = cents + 10"), new Options().attempts(2).firstWait(Duration.ZERO))
            .retriable("order", "pay-out", Map.class, (ctx, order) -> {}, new Options())
            .pivot("trip", "buy", JsonNode.class, (ctx, trip) -> { if (!acts.isEmpty()) acts.poll().run(ctx, null); }, new Options().version(3)
                .upcast((data, version) -> Participant.json.createObjectNode().put("was", version)));
        shop.connect();
    }

    static Participant made(String service) {
        Participant p = new Participant(service);
        p.databaseUrl = url;
        return p;
    }

    @AfterEach
    void close() throws Exception { shop.close(); }

    static void execute(String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute(sql);
        }
    }

    static String one(String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet rows = statement.executeQuery("SELECT (" + sql + ")::text")) {
            rows.next();
            return rows.getString(1);
        }
    }

    static String cents() throws SQLException { return one("SELECT cents FROM wallet"); }

    static String sent() throws SQLException {
        return one("SELECT string_agg(destination || ' ' || idempotency_key, ', ' ORDER BY id) FROM skald.outbox WHERE type <> 'skald.progress'");
    }

    String events(Delivery... messages) throws SQLException {
        List<String> all = new ArrayList<>();
        for (Delivery m : messages) all.add(shop.process(m, false));
        return String.join(" ", all);
    }

    static Delivery message(String step, int place, String key, byte[] body, boolean back, String... headers) {
        String id = key + ":" + step + (back ? ".compensate" : "");
        Map<String, Object> all = new HashMap<>(Map.of("x-idempotency-key", id, "x-saga-scope", "", "x-saga", "order", "x-saga-home", "orders",
            "x-saga-itinerary", (back ? "back " : "forward ") + place + "/4 " + plan));
        for (int i = 0; i < headers.length; i += 2) all.put(headers[i], headers[i + 1]);
        return delivery(step, id, all, body);
    }

    static Delivery delivery(String type, String id, Map<String, Object> headers, byte[] body) {
        return new Delivery(null, new AMQP.BasicProperties.Builder().type(type).messageId(id).headers(headers).build(), body);
    }

    static Delivery charge(String key, String... headers) { return message("charge", 2, key, body, false, headers); }

    static final Delivery charge = charge("k"), back = message("charge", 2, "k", body, true);

    static Work<Order> statement(String sql) { return (ctx, order) -> ctx.update(sql); }

    static Work<Order> thrown(RuntimeException what) {
        return (ctx, order) -> { throw what; };
    }

    @Test
    void aStepRunsOnceAndHandsOnTheDataAsItCame() throws Exception {
        assertEquals("step.completed step.duplicate", events(charge, charge));
        assertEquals("90", cents());
        assertEquals("mail k:charge.1.charged, shipping k:ship", sent());
        assertEquals(new String(body), one("SELECT convert_from(payload, 'UTF8') FROM skald.outbox WHERE type = 'ship'"));
        Context c = ran.get(0);
        assertEquals(List.of("k:charge", "k", "order", "charge", 1, 1), List.of(c.key, c.saga, c.definition, c.step, c.attempt, c.version));
    }

    @Test
    void copiesAtTheSameTimeRunOnce() throws Exception {
        var threads = Executors.newFixedThreadPool(8);
        List<String> all = new ArrayList<>();
        for (Future<String> one : threads.invokeAll(Collections.<Callable<String>>nCopies(8, () -> shop.process(charge, false)))) all.add(one.get());
        threads.shutdown();
        assertEquals(1, Collections.frequency(all, "step.completed"));
        assertEquals("90", cents());
    }

    @Test
    void whatAStepSetsGoesOnWithAllItsTypeDoesNotHave() throws Exception {
        acts.add((ctx, order) -> ctx.set("charge", "c1"));
        acts.add((ctx, order) -> ctx.set("charge", Double.NaN));
        assertEquals("step.completed step.failed", events(charge, charge("b")));
        assertEquals("{\"id\":\"1\",\"cents\":1.50,\"big\":9007199254740993,\"charge\":\"c1\"}",
            one("SELECT convert_from(payload, 'UTF8') FROM skald.outbox WHERE type = 'ship'"));
        assertEquals("step.completed", events(message("pay-out", 4, "k", bytes("\uFEFF{}"), false)));
    }

    @Test
    void olderDataIsBroughtUpToDateAndNewerDataWaits() throws Exception {
        List<Delivery> all = new ArrayList<>();
        for (String version : List.of("2", "3", "4", "1"))
            all.add(message("buy", 1, "v" + version, bytes("{ }"), false, "x-saga", "trip", "x-saga-version", version,
                "x-saga-itinerary", "forward 1/2 buy@payments=pivot next@orders=retriable"));
        assertEquals("step.completed step.completed step.awaits_deploy", events(all.subList(0, 3).toArray(new Delivery[0])));
        acts.add((ctx, trip) -> ctx.set("bought", true));
        assertEquals("step.completed", events(all.get(3)));
        // What has not changed goes on as it came: an older process may be the next.
        assertEquals("{ }2 { }3 {\"was\":1,\"bought\":true}3", one("SELECT string_agg(convert_from(payload, 'UTF8') || (headers->>'x-saga-version'), ' ' ORDER BY id) "
            + "FROM skald.outbox WHERE type = 'next'"));
    }

    @Test
    void aRejectionUndoesWhatWasWrittenAndCompensates() throws Exception {
        acts.add(thrown(new Reject("no money\0")));
        assertEquals("step.rejected", events(charge));
        assertEquals("100 rejected", cents() + " " + one("SELECT status FROM skald.idempotency"));
        assertEquals("orders k:create.compensate", sent());
    }

    @Test
    void aCompensationUndoesItsStepOnceAndBeforeItKeepsItFromRunning() throws Exception {
        assertEquals("step.completed step.completed step.duplicate", events(charge, back, back));
        assertEquals("step.cancelled step.duplicate", events(message("charge", 2, "early", body, true), charge("early")));
        assertEquals("100", cents());
    }

    @Test
    void aFaultIsTriedAgainUntilItsAttemptsAreUsedUpASnoozeUsesNone() throws Exception {
        acts.add(thrown(new Snooze(Duration.ofHours(1))));
        acts.add((ctx, order) -> { throw new AssertionError("broke"); });
        acts.add(statement("SELECT 1/0"));
        assertEquals("step.snoozed", events(charge));
        assertEquals("true", one("SELECT due_at > clock_timestamp() + interval '50 min' FROM skald.outbox WHERE type = 'charge'"));
        assertEquals("0 1", one("SELECT attempts || ' ' || snoozes FROM skald.idempotency"));
        assertEquals("step.failed", events(charge("k", "x-snoozes", "1")));
        assertEquals("payments k:charge, payments k:charge", sent());
        assertEquals("step.attempts_exhausted", events(charge("k", "x-snoozes", "1", "x-attempt", "2")));
        assertEquals("failed its last attempt: PSQLException: ERROR: division by zero", one("SELECT error FROM skald.idempotency"));
        assertEquals("100", cents());
    }

    @Test
    void whatCanNeverRunIsParkedWithTheReason() throws Exception {
        acts.addAll(List.of(thrown(new Malformed("no customer")), statement("COMMIT"), statement("ROLLBACK"), (ctx, order) -> ctx.connection.commit(),
            (ctx, order) -> ctx.connection.rollback()));
        assertEquals("step.parked ".repeat(8).strip(), events(charge, charge("a"), charge("b"), charge("c"), charge("d"),
            message("charge", 2, "e", bytes("{"), false), message("charge", 2, "f", bytes("{\"id\": []}"), false), message("create", 1, "g", body, false)));
        Map<String, Object> odd = new HashMap<>(Map.of("a", new byte[] {-1, 'x', -30, -126}, "b", "\0", "c", Map.of(), "d", true));
        assertEquals("delivery.parked delivery.parked",
            events(charge("h", "x-saga-itinerary", "x"), delivery("\0x", null, odd, new byte[] {-1, 0})));
        assertEquals("malformed transaction_ended transaction_ended transaction_ended transaction_ended malformed malformed unknown_step "
            + "malformed malformed", one("SELECT string_agg(reason, ' ' ORDER BY id) FROM skald.parked"));
        assertEquals("no customer", one("SELECT error FROM skald.parked ORDER BY id LIMIT 1"));
        assertEquals("\\x00x|\\xffx\\xe2\\x82|\\x00|true",
            one("SELECT concat_ws('|', type, headers->>'a', headers->>'b', headers->>'d') FROM skald.parked ORDER BY id DESC LIMIT 1"));
        assertEquals("100", cents());
    }

    @Test
    void aLostConnectionAndADeadlockAreNoAttempt() throws Exception {
        Work<Order> deadlock = statement("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$");
        acts.addAll(List.of(deadlock, (ctx, order) -> {
            try (ResultSet rows = ctx.connection.createStatement().executeQuery("SELECT pg_backend_pid()")) {
                rows.next();
                execute("SELECT pg_terminate_backend(" + rows.getInt(1) + ")");
            }
            ctx.update("UPDATE wallet SET cents = 0");
        }, (ctx, order) -> {
            try {
                deadlock.run(ctx, order);
            } catch (SQLException inside) {
                throw new IllegalStateException(inside);
            }
        }));
        assertEquals("step.completed", events(charge));
        assertEquals("90 1", cents() + " " + one("SELECT attempts FROM skald.idempotency"));
    }

    /** A connection on which a thread of the step has a statement fail just before the participant's own call of commit(). */
    Connection overtaken() throws SQLException {
        Connection made = shop.open();
        return (Connection) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Connection.class}, (self, method, values) -> {
            if (method.getName().equals("commit"))
                assertThrows(SQLException.class, () -> made.createStatement().execute("SELECT 1/0"));
            return method.invoke(made, values);
        });
    }

    @Test
    void whatIsCompletedIsCommitted() throws Exception {
        shop.idle.push(overtaken());
        assertEquals("step.completed", events(charge));
        assertEquals("90 mail k:charge.1.charged, shipping k:ship", cents() + " " + sent());
    }

    @Test
    void mistakesAreSaidAtTheStart() throws Exception {
        Participant wrong = made("orders"), negative = made("payments");
        negative.pivot("order", "ship", Order.class, (ctx, order) -> {}, new Options().firstWait(Duration.ofMillis(-1)));
        assertTrue(assertThrows(SQLException.class, wrong::connect).getMessage().contains("belongs to the service payments"));
        assertTrue(assertThrows(SQLException.class, negative::connect).getMessage().contains("step order/ship: first_ms can't be -1"));
        assertTrue(assertThrows(IllegalArgumentException.class,
            () -> shop.pivot("order", "charge", Order.class, (ctx, order) -> {}, new Options())).getMessage().contains("is there twice"));
        Participant early = made("payments");
        early.databaseUrl = server;
        String said = assertThrows(SQLException.class, early::run).getMessage();
        assertTrue(said.contains("does not exist") && said.contains("run `skald migrate --service payments`"), said);
        wrong.close();
        negative.close();
    }

    /** As a process of its own. */
    public static void main(String[] arguments) throws Exception {
        Participant p = new Participant("payments").retriable("order", "pay-out", Order.class,
            (ctx, order) -> ctx.update("UPDATE wallet SET cents = cents - 1"), new Options());
        p.lanes = 1; // what comes last is done last
        p.run();
    }

    static Process started(ProcessBuilder.Redirect said) throws Exception {
        ProcessBuilder made = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1", "-cp",
            System.getProperty("java.class.path"), "skald.ParticipantTest").redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(said);
        made.environment().put("DATABASE_URL", url);
        return made.start();
    }

    static void waitFor(Callable<Boolean> holds) throws Exception {
        for (long until = System.nanoTime() + 30_000_000_000L; !holds.call(); Thread.sleep(20)) assertTrue(System.nanoTime() < until);
    }

    static Channel declared(com.rabbitmq.client.Connection broker) throws Exception {
        Channel channel = broker.createChannel();
        for (String queue : List.of("", ".parked", ".database")) channel.queueDelete("skald.payments" + queue);
        skald("declare");
        return channel;
    }

    static void send(Channel channel, Delivery m) throws Exception {
        channel.basicPublish("skald", "payments", m.getProperties().builder().deliveryMode(2).build(), m.getBody());
    }

    static ConnectionFactory brokers() throws Exception {
        ConnectionFactory made = new ConnectionFactory();
        made.setUri(System.getenv("AMQP_URL"));
        return made;
    }

    @Test
    void aParticipantThatIsToldToEndLeavesItsBacklog() throws Exception {
        AtomicInteger steps = new AtomicInteger();
        shop.close();
        shop = made("payments").retriable("order", "pay-out", Order.class, (ctx, order) -> {
            if (steps.incrementAndGet() == 3) shop.stopped.complete(null);
        }, new Options());
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            for (int n = 0; n < 300; ++n) send(channel, message("pay-out", 4, "k" + n, body, false));
            waitFor(() -> channel.messageCount("skald.payments") == 300);
            shop.run();
            assertTrue(steps.get() < 100, steps.get() + " steps ran");
            waitFor(() -> channel.messageCount("skald.payments") == 300 - steps.get());
        }
    }

    @Test
    void whatADatabaseWithoutWritesDoesNotTakeIsKept(@TempDir Path directory) throws Exception {
        Path said = directory.resolve("said");
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            Process process = started(ProcessBuilder.Redirect.to(said.toFile()));
            waitFor(() -> channel.consumerCount("skald.payments") > 0);
            execute("ALTER DATABASE " + name + " SET default_transaction_read_only = on");
            try {
                execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald/payments'");
                for (int n = 0; n < 20; ++n) send(channel, message("pay-out", 4, "k" + n, body, false));
                waitFor(() -> Files.readString(said).contains("kept until") || Files.readString(said).contains("trying again"));
            } finally {
                execute("ALTER DATABASE " + name + " RESET default_transaction_read_only");
            }
            waitFor(() -> cents().equals("80"));
            process.destroy();
            assertEquals(0, process.waitFor());
            assertTrue(Files.readString(said).contains("kept until the database takes it"));
            assertFalse(Files.readString(said).contains("trying again")); // it gives back all that it has, which counts as delivered once more
        }
    }

    @Test
    void aProcessTakesWhatComesIsKilledAndEndsWhenTold() throws Exception {
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            Callable<AMQP.Queue.DeclareOk> queue = () -> channel.queueDeclarePassive("skald.payments");
            Process process = started(ProcessBuilder.Redirect.DISCARD);
            for (int n = 0; n < 30; ++n) {
                send(channel, message("pay-out", 4, "k" + (n < 10 ? n : n - 10), body, false));
                if (n % 10 != 5) continue;
                waitFor(() -> queue.call().getMessageCount() == 0);
                process.destroyForcibly().waitFor();
                process = started(ProcessBuilder.Redirect.DISCARD);
            }
            waitFor(() -> cents().equals("80"));
            process.destroy();
            assertEquals(0, process.waitFor());
            waitFor(() -> queue.call().getConsumerCount() == 0);
            assertEquals(0, queue.call().getMessageCount()); // what was not acked would be back
            assertEquals("80 20", cents() + " " + one("SELECT count(*) FROM skald.idempotency"));
        }
    }
}
