package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Delivery;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
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
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;

/** A participant on a real PostgreSQL: DATABASE_URL (scripts/stack.sh), SKALD (the command line). */
abstract class Shop {
    record Order(String id) {}

    static final String plan = "create@orders=compensatable charge@payments=compensatable ship@shipping=pivot pay-out@payments=retriable";
    static final byte[] body = bytes(" {\"id\": \"1\", \"cents\": 1.50, \"big\": 9007199254740993}");
    static final String server = System.getenv("DATABASE_URL");
    static final String name = "sdk_java_" + UUID.randomUUID().toString().replace("-", "");
    static final String url = server.substring(0, server.lastIndexOf('/') + 1) + name;
    static Connection db;

    final Deque<Work<Order>> acts = new ArrayDeque<>();
    final List<Context> ran = Collections.synchronizedList(new ArrayList<>());
    final List<String> logged = new CopyOnWriteArrayList<>();
    final Handler listener = new Handler() {
        @Override public void publish(LogRecord record) {
            StringWriter printed = new StringWriter().append(new SimpleFormatter().formatMessage(record));
            if (record.getThrown() != null) record.getThrown().printStackTrace(new PrintWriter(printed.append("\n")));
            logged.add(printed.toString());
        }
        @Override public void flush() {}
        @Override public void close() {}
    };
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
        Logger.getLogger("").addHandler(listener);
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
            .pivot("trip", "buy", JsonNode.class, (ctx, trip) -> {
                if (trip instanceof ObjectNode changed) changed.put("was", "lost");
                if (!acts.isEmpty()) acts.poll().run(ctx, null);
            }, new Options().version(3)
                .upcast((data, version) -> Data.json.createObjectNode().put("was", version)));
        shop.connect();
    }

    static Participant made(String service) {
        Participant p = new Participant(service);
        p.databaseUrl = url;
        return p;
    }

    @AfterEach
    void close() throws Exception {
        Logger.getLogger("").removeHandler(listener);
        shop.close();
    }

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
}
