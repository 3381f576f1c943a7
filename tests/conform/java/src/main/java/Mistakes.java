import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A participant on the functions of docs/languages-sql.md alone, without the SDK, and what one may do wrong: skald conform must name it. The first
 * argument is the mistake; `none`: it is right. */
final class Mistakes {
    static final class Rejected extends Exception {}

    static final class Waits extends Exception {}

    static final class Fault extends Exception {}

    static final List<String> known = List.of("cents", "rejects_at", "fails_at", "fails", "waits_at", "marks", "receipt");
    static final String quick = "\"attempts\": 3, \"first_ms\": 50, \"longest_ms\": 200}";
    static final String steps = "{\"conform/charge\": {\"kind\": \"compensatable\", " + quick + ", \"conform/ship\": {\"kind\": \"pivot\", " + quick
        + ", \"conform/pay-out\": {\"kind\": \"retriable\", " + quick + "}";
    static final JsonMapper json = JsonMapper.builder().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS).build();
    static String mistake;
    static Connection db, other;
    static Channel channel;

    static boolean is(String what) { return mistake.equals(what); }

    static PreparedStatement prepared(Connection on, String sql, Object... values) throws SQLException {
        PreparedStatement made = on.prepareStatement(sql);
        for (int i = 0; i < values.length; ++i) made.setObject(i + 1, values[i]);
        return made;
    }

    static void run(Connection on, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(on, sql, values)) {
            statement.execute();
        }
    }

    static JsonNode row(String sql, Object... values) throws Exception {
        try (PreparedStatement statement = prepared(db, sql, values); var rows = statement.executeQuery()) {
            rows.next();
            return json.readTree(rows.getString(1));
        }
    }

    static String step(JsonNode r) { return r.path("step").asText() + (r.path("is_compensation").asBoolean() ? ".compensate" : ""); }

    static void write(Connection on, JsonNode r, JsonNode data) throws SQLException {
        run(on, "INSERT INTO conform.ledger (scope, saga, step, cents) VALUES (?, ?, ?, ?)", r.path("scope").asText(), r.path("key").asText(), step(r),
            data.path("cents").asLong());
    }

    static void publish(JsonNode r) throws Exception {
        byte[] body = json.writeValueAsBytes(Map.of("saga", r.path("key").asText()));
        if (is("publishes_directly"))
            channel.basicPublish("skald", "conform.events", new AMQP.BasicProperties.Builder().type("shipped").messageId(r.path("key").asText()
                + ":ship.1.shipped").headers(Map.of("x-saga-scope", r.path("scope").asText())).build(), body);
        else run(db, "SELECT skald.publish(?::jsonb, 'conform.events', 'shipped', ?)", r.path("taken").toString(), body);
    }

    static void work(JsonNode r, JsonNode data) throws Exception {
        if (!is("effect_after_done")) write(is("effect_outside") ? other : db, r, data);
        if (step(r).equals("ship")) publish(r);
        if (data.path("fails_at").asText().equals(step(r)) && r.path("attempt").asInt() <= data.path("fails").asInt()) throw new Fault();
        if (data.path("rejects_at").asText().equals(step(r))) throw new Rejected();
        if (data.path("waits_at").asText().equals(step(r))
            && row("SELECT count(*) FROM conform.gate WHERE scope = ? AND saga = ?", r.path("scope").asText(), r.path("key").asText()).asInt() == 0)
            throw new Waits();
    }

    static byte[] changed(JsonNode r, byte[] body, ObjectNode data) throws Exception {
        boolean marks = step(r).equals("charge") && data.path("marks").asBoolean();
        if (marks) data.put("receipt", r.path("key").asText());
        if (is("loses_members")) data.retain(known);
        return marks || is("loses_members") ? json.writeValueAsBytes(data) : body;
    }

    static JsonNode take(Delivery d, boolean givenUp) throws Exception {
        Map<String, String> headers = new TreeMap<>();
        d.getProperties().getHeaders().forEach((name, value) -> headers.put(name, String.valueOf(value).replace("\0", "?")));
        return row("SELECT to_jsonb(t) - 'data' FROM skald.take(?, ?::jsonb, ?, ?::jsonb, ?, NULL, ?) AS t", d.getProperties().getType(),
            json.writeValueAsString(headers), d.getBody(), steps, d.getProperties().getMessageId(), givenUp);
    }

    static void handle(Delivery d, boolean givenUp) throws Exception {
        run(db, "BEGIN");
        JsonNode r = take(d, givenUp);
        boolean isAcked = false;
        if (!r.path("verdict").asText().equals("run")) {
            if (is("ignores_verdict") && r.path("event").asText().equals("step.duplicate")) write(db, r, json.readTree(d.getBody()));
            run(db, "COMMIT");
        } else {
            ObjectNode data = (ObjectNode) json.readTree(d.getBody());
            String taken = r.path("taken").toString();
            try {
                work(r, data);
                run(db, "SELECT skald.done(?::jsonb, ?)", taken, changed(r, d.getBody(), data));
                isAcked = is("ack_before_commit");
                if (isAcked) ack(d);
                run(db, "COMMIT");
                if (is("effect_after_done")) write(db, r, data);
            } catch (Rejected rejected) {
                run(db, "ROLLBACK");
                run(db, "BEGIN");
                if (is("reject_without_rollback")) write(db, r, data);
                run(db, "SELECT skald.reject(?::jsonb, ?, 'as the data say')", taken, d.getBody());
                run(db, "COMMIT");
            } catch (Waits waits) {
                run(db, "ROLLBACK");
                if (!is("snoozes_by_ack")) run(db, "SELECT skald.snooze(?::jsonb, ?, interval '100 ms')", taken, d.getBody());
            } catch (Fault fault) {
                run(db, "ROLLBACK");
                run(db, "SELECT skald.fail(?::jsonb, ?, 'as the data say')", taken, d.getBody());
            } catch (SQLException error) {
                run(db, "ROLLBACK");
                if (!List.of("40P01", "55P03").contains(String.valueOf(error.getSQLState()))) throw error;
                handle(d, givenUp);
                return;
            }
        }
        if (!isAcked) ack(d);
    }

    static void ack(Delivery d) throws Exception { channel.basicAck(d.getEnvelope().getDeliveryTag(), false); }

    static boolean isGivenUp(Delivery d) {
        return d.getEnvelope().isRedeliver() || "delivery_limit".equals(String.valueOf(d.getProperties().getHeaders().get("x-first-death-reason")));
    }

    static void consume(String queue, boolean isParked) throws Exception {
        channel.basicConsume(queue, false, (tag, d) -> {
            try {
                handle(d, isParked && isGivenUp(d));
            } catch (Exception error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }, tag -> {});
    }

    public static void main(String[] arguments) throws Exception {
        mistake = arguments[0];
        String url = System.getenv("DATABASE_URL"), user = url.replaceFirst("^.*//([^@:/]*).*$", "$1");
        url = "jdbc:postgresql://" + url.substring(url.indexOf('@') + 1);
        db = DriverManager.getConnection(url, user, null);
        other = DriverManager.getConnection(url, user, null);
        run(db, "SELECT skald.host('payments', ?::jsonb)", steps);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("AMQP_URL"));
        factory.setAutomaticRecoveryEnabled(false);
        channel = factory.newConnection().createChannel();
        channel.basicQos(8);
        consume("skald.payments", false);
        consume("skald.payments.parked", true);
    }
}
