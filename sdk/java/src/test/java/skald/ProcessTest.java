package skald;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A process on a real RabbitMQ: AMQP_URL. */
class ProcessTest extends Shop {
    /** As a process of its own. */
    public static void main(String[] arguments) throws Exception {
        Participant p = new Participant("payments").retriable("order", "pay-out", Order.class,
            (ctx, order) -> {
                if (ctx.saga().equals("kills")) Runtime.getRuntime().halt(3);
                ctx.update("UPDATE wallet SET cents = cents - 1");
                if (ctx.saga().equals("hangs")) new CompletableFuture<>().join();
            }, new Options());
        p.lanes = Integer.parseInt(arguments[0]);
        p.run();
    }

    static Process started(ProcessBuilder.Redirect said) throws Exception { return started(said, 1); } // what comes last is done last

    static Process started(ProcessBuilder.Redirect said, int lanes) throws Exception {
        ProcessBuilder made = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1", "-cp",
            System.getProperty("java.class.path"), "skald.ProcessTest", String.valueOf(lanes)).redirectOutput(ProcessBuilder.Redirect.DISCARD)
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
    void aMessageForAnotherDatabaseIsLeftInTheQueue() throws Exception {
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            send(channel, charge);
            waitFor(() -> channel.messageCount("skald.payments") == 1);
            channel.queueDelete("skald.payments.database");
            channel.queueDelete("skald.payments.database." + one("SELECT id FROM skald.service"));
            channel.queueDeclare("skald.payments.database", true, false, false, Map.of("x-queue-type", "quorum"));
            for (boolean declares : List.of(true, false)) {
                shop.declare = declares;
                String said = assertTimeoutPreemptively(Duration.ofSeconds(30), () -> assertThrows(IllegalStateException.class, shop::run)).getMessage();
                assertTrue(said.startsWith("the messages for payments belong to another database than the DATABASE_URL's ("), said);
            }
            waitFor(() -> channel.messageCount("skald.payments") == 1);
        }
    }

    @Test
    void aSecondSignalEndsAProcessWhoseStepHangs(@TempDir Path temporary) throws Exception {
        Path said = temporary.resolve("said");
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            Process process = started(ProcessBuilder.Redirect.to(said.toFile()));
            send(channel, message("pay-out", 4, "hangs", body, false));
            waitFor(() -> one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'").equals("1"));
            process.destroy();
            waitFor(() -> Files.readString(said).contains("SIGTERM: payments waits for the steps under way"));
            process.destroy();
            assertEquals(128 + 15, process.waitFor());
        }
    }

    @Test
    void lanesForWhichABrokerHasNoChannelsAreRefused() {
        shop.amqpUrl = System.getenv("AMQP_URL") + "?channel_max=4";
        String said = assertTimeoutPreemptively(Duration.ofSeconds(30), () -> assertThrows(IllegalStateException.class, shop::run)).getMessage();
        assertTrue(said.startsWith("4 lanes use 5 channels, and the broker allows 4 on a connection: "), said);
    }

    @Test
    void aRefusalThatSaysNothingOfTheDatabaseIsTriedAgain() throws Exception {
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            channel.queueDelete("skald.payments.database");
            channel.queueDeclare("skald.payments.database", false, true, false, null); // exclusive
            var ran = CompletableFuture.runAsync(() -> assertDoesNotThrow(shop::run));
            waitFor(() -> ran.isDone() || logged.stream().anyMatch(line -> line.matches("trying again.*=RESOURCE_LOCKED.*")));
            channel.queueDelete("skald.payments.database");
            waitFor(() -> ran.isDone() || channel.consumerCount("skald.payments") > 0);
            shop.stopped.complete(null);
            ran.join();
        }
    }

    @Test
    void theLogSaysWhyABrokerOrADatabaseCanNotBeUsed() throws Exception {
        Participant unreached = made("payments"), refused = made("payments");
        unreached.databaseUrl = "postgresql://localhost:1/db";
        refused.amqpUrl = System.getenv("AMQP_URL").replaceFirst("(//[^/]*).*", "$1/none%0A");
        var all = CompletableFuture.allOf(
            CompletableFuture.runAsync(() -> assertDoesNotThrow(unreached::run)),
            CompletableFuture.runAsync(() -> assertDoesNotThrow(refused::run)),
            CompletableFuture.runAsync(() -> assertDoesNotThrow(() -> unreached.processKept(charge, false, new CompletableFuture<>()))));
        for (String said : List.of("trying again.* refused.*: java.net.ConnectException: .*",
            "trying again.*vhost none\\\\x0a not found.*", "k:charge is kept until .* refused.*: java.net.ConnectException: .*"))
            waitFor(() -> logged.stream().anyMatch(line -> line.matches(said)));
        for (Participant one : List.of(unreached, refused)) one.stopped.complete(null);
        all.join();
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
    void whatAPolicyHasParkedIsProcessedAndWhatCameTooOftenIsNot() throws Exception {
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            Process process = started(ProcessBuilder.Redirect.DISCARD);
            for (String why : List.of("", "expired", "delivery_limit")) {
                Delivery m = message("pay-out", 4, "k" + why, body, false, why.isEmpty() ? "x" : "x-first-death-reason", why);
                channel.basicPublish("skald.parked", "payments", m.getProperties(), m.getBody());
            }
            waitFor(() -> one("SELECT (SELECT cents FROM wallet) - count(*) FROM skald.parked").equals("97"));
            process.destroy();
            assertEquals(0, process.waitFor());
            assertEquals("delivery_limit kdelivery_limit", one("SELECT reason || ' ' || key FROM skald.parked"));
        }
    }

    @Test
    void whatKillsAProcessTakesNoOtherDeliveryAlong() throws Exception {
        try (var broker = brokers().newConnection(); Channel channel = declared(broker)) {
            Process process = started(ProcessBuilder.Redirect.DISCARD, 4);
            send(channel, message("pay-out", 4, "k0", body, false));
            waitFor(() -> channel.consumerCount("skald.payments") == 4); // then it has the whole prefetch
            process.destroyForcibly().waitFor();
            waitFor(() -> channel.consumerCount("skald.payments") == 0);
            send(channel, message("pay-out", 4, "kills", body, false));
            for (int n = 1; n < 20; ++n) send(channel, message("pay-out", 4, "k" + n, body, false));
            for (int n = 0; n < 4; ++n) assertEquals(3, started(ProcessBuilder.Redirect.DISCARD, 4).waitFor());
            waitFor(() -> channel.messageCount("skald.payments") == 20);
            for (int n = 0; n < 20; ++n) {
                var came = channel.basicGet("skald.payments", false).getProps();
                assertEquals(came.getMessageId().equals("kills:pay-out") ? "4" : "0", String.valueOf(came.getHeaders().getOrDefault("x-delivery-count", 0)));
            }
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
