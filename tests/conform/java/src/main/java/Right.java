import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Duration;
import java.util.Map;
import skald.Context;
import skald.Options;
import skald.Participant;
import skald.Reject;
import skald.Snooze;
import skald.Work;

/** The participant of docs/conform.md, with sdk/java. */
final class Right {
    record Order(long cents, @JsonProperty("rejects_at") String rejectsAt, @JsonProperty("fails_at") String failsAt, int fails,
                 @JsonProperty("waits_at") String waitsAt, boolean marks) {}

    static Work<Order> work(String step) {
        return (ctx, data) -> {
            ctx.update("INSERT INTO conform.ledger (scope, saga, step, cents) VALUES (?, ?, ?, ?)", ctx.scope(), ctx.saga(), step, data.cents());
            if (step.equals("ship")) ctx.publish("conform.events", "shipped", Map.of("saga", ctx.saga()), "keep");
            if (step.equals(data.failsAt()) && ctx.attempt() <= data.fails()) throw new IllegalStateException("as the data say");
            if (step.equals(data.rejectsAt())) throw new Reject("as the data say");
            if (step.equals(data.waitsAt()) && !isOpen(ctx)) throw new Snooze(Duration.ofMillis(100));
            if (step.equals("charge") && data.marks()) ctx.set("receipt", ctx.saga());
        };
    }

    static boolean isOpen(Context ctx) throws java.sql.SQLException {
        try (var gate = ctx.connection().prepareStatement("SELECT FROM conform.gate WHERE scope = ? AND saga = ?")) {
            gate.setString(1, ctx.scope());
            gate.setString(2, ctx.saga());
            try (var rows = gate.executeQuery()) {
                return rows.next();
            }
        }
    }

    static Options quick() {
        return new Options().attempts(3).firstWait(Duration.ofMillis(50)).longestWait(Duration.ofMillis(200));
    }

    public static void main(String[] arguments) throws Exception {
        new Participant("payments").compensatable("conform", "charge", Order.class, work("charge"), work("charge.compensate"), quick())
            .pivot("conform", "ship", Order.class, work("ship"), quick())
            .retriable("conform", "pay-out", Order.class, work("pay-out"), quick()).run();
    }
}
