package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Delivery;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** What becomes of a delivery. */
class ParticipantTest extends Shop {
    @Test
    void aStepRunsOnceAndHandsOnTheDataAsItCame() throws Exception {
        assertEquals("step.completed step.duplicate", events(charge, charge));
        assertEquals("90", cents());
        assertEquals("mail k:charge.1.charged, shipping k:ship", sent());
        assertEquals(new String(body), one("SELECT convert_from(payload, 'UTF8') FROM skald.outbox WHERE type = 'ship'"));
        Context c = ran.get(0);
        assertEquals(List.of("k:charge", "k", "order", "charge", 1, 1), List.of(c.key(), c.saga(), c.definition(), c.step(), c.attempt(), c.version()));
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
    void anotherMembersNumberKeepsItsValue() throws Exception {
        acts.add((ctx, order) -> ctx.set("charge", "c1"));
        events(message("charge", 2, "k", bytes("{\"id\": \"1\", \"numbers\": [1234567890123456.78, 1.50, -0, -0.0, 1E5, 1e-7]}"), false));
        assertEquals("[1234567890123456.78,1.50,0,0.0,1E+5,1E-7]", one("SELECT substring(convert_from(payload, 'UTF8') FROM '[[].*[]]')"
            + " FROM skald.outbox WHERE type = 'ship'"));
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
        assertEquals("failed its last attempt: org.postgresql.util.PSQLException: ERROR: division by zero", one("SELECT error FROM skald.idempotency"));
        acts.add((ctx, order) -> { throw new Snooze(Duration.ofSeconds(Long.MAX_VALUE)); });
        assertEquals("step.failed", events(charge("eternity")));
        assertEquals("100", cents());
    }

    @Test
    void whoWaitsForALockEndsWhenTold() throws Exception {
        shop.stopped.complete(null);
        try (Connection other = connected(url)) {
            other.setAutoCommit(false);
            other.createStatement().execute("LOCK skald.service");
            assertEquals("55P03", assertTimeoutPreemptively(Duration.ofSeconds(30), () -> assertThrows(SQLException.class, () -> shop.process(charge, false)))
                .getSQLState());
        }
    }

    @Test
    void aUrlMayNameSeveralHostsAndEscapeAPassword() throws Exception {
        shop.databaseUrl = url.replaceFirst("//([^@]*)@([^/]*)/", "//$1:a%40+b@$2,$2/");
        shop.close();
        shop.connect();
        assertEquals("step.completed", events(charge));
    }

    @Test
    void aStepsLimitsAndIsolationAreSkaldsAlsoWhereAUrlSetsOthers() throws Exception {
        shop.databaseUrl = url + "?options=-c%20search_path%3Dshop,public%20-c%20lock_timeout%3D9"
            + "%20-c%20default_transaction_isolation%3Dserializable";
        shop.close();
        acts.add((ctx, order) -> assertEquals("shop,public 5s 30s 30s read committed", Database.query(ctx.connection(),
            "SELECT concat_ws(' ', current_setting('search_path'), current_setting('lock_timeout'), current_setting('statement_timeout'),"
                + " current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation'))")));
        assertEquals("step.completed", events(charge));
    }

    @Test
    void aConnectionStartsWithNoSettingThatAPoolerRefuses() throws Exception {
        shop.close();
        try (Connection c = shop.open()) {
            assertEquals("client_encoding DateStyle TimeZone",
                Database.query(c, "SELECT string_agg(name, ' ' ORDER BY lower(name)) FROM pg_settings WHERE source = 'client'"));
        }
    }

    @Test
    void whatCanNeverRunIsParkedWithTheReason() throws Exception {
        acts.addAll(List.of(thrown(new Malformed("no customer")), statement("COMMIT"), statement("ROLLBACK"), (ctx, order) -> ctx.connection().commit(),
            (ctx, order) -> ctx.connection().rollback()));
        assertEquals("step.parked ".repeat(8).strip(), events(charge, charge("a"), charge("b"), charge("c"), charge("d"),
            message("charge", 2, "e", bytes("{"), false), message("charge", 2, "f", bytes("{\"id\": []}"), false), message("create", 1, "g", body, false)));
        Map<String, Object> odd = new HashMap<>(Map.of("a", new byte[] {-1, 'x', -30, -126}, "b", "\0", "c", Map.of(), "d", true));
        assertEquals("delivery.parked delivery.parked",
            events(charge("h", "x-saga-itinerary", "x"), delivery("\0x", "a\nb", odd, new byte[] {-1, 0})));
        assertEquals("malformed transaction_ended transaction_ended transaction_ended transaction_ended malformed malformed unknown_step "
            + "malformed malformed", one("SELECT string_agg(reason, ' ' ORDER BY id) FROM skald.parked"));
        assertTrue(logged.contains("step.parked of k:charge: no customer"), logged.toString());
        assertTrue(logged.stream().anyMatch(line -> line.startsWith("delivery.parked of a\\x0ab: ")), logged.toString());
        assertEquals("no customer", one("SELECT error FROM skald.parked ORDER BY id LIMIT 1"));
        assertEquals("\\x00x|\\xffx\\xe2\\x82|\\x00|true",
            one("SELECT concat_ws('|', type, headers->>'a', headers->>'b', headers->>'d') FROM skald.parked ORDER BY id DESC LIMIT 1"));
        assertEquals("100", cents());
    }

    @Test
    void onlyTheEndOfSkaldsOwnTransactionParksAStep() throws Exception {
        Work<Order> anothers = (ctx, order) -> {
            try (Connection archive = connected(url); var begun = archive.createStatement()) {
                archive.setAutoCommit(false);
                begun.execute("DO $$ BEGIN COMMIT; END $$");
            }
        };
        acts.addAll(List.of(anothers, (ctx, order) -> {
            assertThrows(SQLException.class, () -> ctx.update("SELECT 1/0"));
            anothers.run(ctx, order);
        }, statement("DO $$ BEGIN COMMIT; END $$"), (ctx, order) -> {
            ctx.connection().commit();
            ctx.publish("mail", "late", 1, "keep");
        }, statement("ROLLBACK AND CHAIN")));
        assertEquals("step.failed step.failed step.parked step.parked step.parked",
            events(charge, charge("a"), charge("b"), charge("c"), charge("d")));
        assertEquals("transaction_ended 3", one("SELECT min(reason) || ' ' || count(*) FROM skald.parked"));
    }

    @Test
    void aLostConnectionAndADeadlockAreNoAttempt() throws Exception {
        Work<Order> deadlock = statement("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$");
        acts.addAll(List.of(deadlock, deadlock, deadlock, deadlock, (ctx, order) -> {
            try (ResultSet rows = ctx.connection().createStatement().executeQuery("SELECT pg_backend_pid()")) {
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

    @Test
    void aSilentStepRunsOnceForEachAttempt() throws Exception {
        shop.idleMax = -1;
        acts.add((ctx, order) -> {
            String pid = Database.query(ctx.connection(), "SELECT pg_backend_pid()");
            ctx.update("SET LOCAL idle_in_transaction_session_timeout = 1");
            ProcessTest.waitFor(() -> one("SELECT count(*) FROM pg_stat_activity WHERE pid = " + pid).equals("0"));
            ctx.update("SELECT 1");
        });
        assertEquals("step.failed", events(charge));
        assertTrue(one("SELECT error FROM skald.idempotency").contains("idle-in-transaction timeout"));
    }

    @Test
    void whatIsThrownAndHasNoTextIsAFault() throws Exception {
        RuntimeException circle = new RuntimeException("circle");
        circle.initCause(new RuntimeException(circle));
        acts.addAll(List.of(thrown(circle), thrown(new RuntimeException() {
            @Override public String getMessage() { throw new IllegalStateException("none"); }
        })));
        assertEquals("step.failed step.failed", events(charge, charge("b")));
        assertEquals("100 1 1", cents() + one("SELECT ' ' || count(*) FILTER (WHERE error LIKE '%be made text') || ' '"
            + " || count(*) FILTER (WHERE error LIKE '%: circle%') FROM skald.idempotency"));
    }

    /** A connection on which a thread of the step writes with what it was lent before done(), and behind it with a statement that it had made. */
    Connection overtaken() throws SQLException {
        Connection made = shop.open();
        return (Connection) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Connection.class}, (self, method, values) -> {
            if (method.getName().equals("prepareStatement") && values[0].toString().contains("skald.done"))
                assertThrows(IllegalStateException.class, () -> ran.get(0).update("UPDATE wallet SET cents = 1"));
            if (Set.of("commit", "rollback").contains(method.getName())) made.createStatement().execute("UPDATE wallet SET cents = 0");
            return method.invoke(made, values);
        });
    }

    @Test
    void whatIsCompletedIsCommittedAndNothingBehindIt() throws Exception {
        shop.connections.idle.push(overtaken());
        assertEquals("step.completed", events(charge));
        assertEquals("90 mail k:charge.1.charged, shipping k:ship", cents() + " " + sent());
    }

    @Test
    void whatStrangersHaveSentBeginsNoLineOfTheLog() throws Exception {
        acts.add((ctx, order) -> {
            try {
                ctx.update("SELECT 'a\nb'::int");
            } catch (SQLException inside) {
                throw new IllegalStateException("c\nd", inside);
            }
        });
        assertEquals("step.failed", events(charge));
        List<String> said = logged.get(0).lines().filter(line -> !line.startsWith("\t")).toList();
        assertEquals(List.of("k:charge failed", "java.lang.IllegalStateException: c\\x0ad"), said.subList(0, 2));
        assertTrue(said.get(2).startsWith("Caused by: org.postgresql.util.PSQLException: ERROR: ") && said.get(2).contains("\"a\\x0ab\""), said.get(2));
        assertEquals(3, said.size());
    }

    @Test
    void anExceptionsTypeAndWhatItSuppressedAreLogged() {
        var error = new IllegalStateException("a\nb", new NumberFormatException());
        error.addSuppressed(new SQLException("c\nd", error));
        Throwable said = Text.Said.of(error), suppressed = said.getSuppressed()[0];
        assertEquals("java.lang.IllegalStateException: a\\x0ab", said.getMessage()); // some print this and no more
        assertEquals(said.getMessage(), said.toString());
        assertEquals("java.lang.NumberFormatException", said.getCause().getMessage());
        assertEquals("java.sql.SQLException: c\\x0ad", suppressed.toString());
        assertEquals(null, suppressed.getCause()); // each is said once
    }

    static final String escapes = "a password's %, @, : and / are written %25, %40, %3A, %2F";

    @Test
    void anAddressThatIsNoBrokersIsRefusedWithoutItsPassword() {
        for (String address : Arrays.asList(null, "localhost", "amqp://u:se:cret@localhost", "amqp://u:cr@cret@localhost", "amqp://u:x/cret@localhost",
            "amqp://u:s@cret/@localhost", "amqp://u:%cret@localhost", "amqp://u:cret@a_b",
            "amqp://a,b", "amqp://u:cret@localhost/a/b", "amqp:localhost")) {
            shop.amqpUrl = address;
            var error = assertTimeoutPreemptively(Duration.ofSeconds(30), () -> assertThrows(IllegalArgumentException.class, shop::run), address);
            assertTrue(error.getMessage().startsWith("AMQP_URL is not the URL of a broker") && error.getCause() == null, error.toString());
            assertFalse(error.getMessage().contains("cret"));
            assertTrue(error.getMessage().contains(escapes), error.toString());
        }
    }

    @Test
    void anAddressThatIsNoDatabasesIsRefusedWithoutItsPassword() {
        Participant none = new Participant("payments");
        for (String address : List.of("host=localhost password=cret", "postgresql://u:se/cret@localhost/db",
            "postgresql://u:se@cret@localhost/db", "postgresql://u:%cret@localhost/db", "postgresql://u:cret/db",
            "postgresql://u:cret@localhost", "postgresql://u:cret@localhost:99999/db",
            "postgresql://u:9/cret@localhost/db", "postgresql://localhost:x/db?password=cret", "postgresql://localhost/db?password=%cret")) {
            none.databaseUrl = address;
            var error = assertTimeoutPreemptively(Duration.ofSeconds(30),
                () -> assertThrows(IllegalArgumentException.class, none::run), address);
            assertTrue(error.getMessage().matches("DATABASE_URL is not.*" + escapes) && error.getCause() == null, error.toString());
            assertFalse((error.getMessage() + logged).contains("cret"), error.toString());
        }
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
        early.close();
        early.databaseUrl = "localhost";
        assertTrue(assertThrows(IllegalArgumentException.class, early::run).getMessage().startsWith("DATABASE_URL is not"));
        for (String signatures : List.of("off", "sign", "require", "required")) {
            early.signatures = signatures;
            said = assertThrows(IllegalArgumentException.class, early::run).getMessage();
            assertTrue(said.startsWith(signatures.startsWith("require") ? "SKALD_SIGNATURES=" + signatures + ": this SDK" : "DATABASE_URL is not"), said);
        }
        for (int lanes : List.of(0, 2047)) {
            early.lanes = lanes;
            assertEquals("lanes are 1 to 2046, and not " + lanes, assertThrows(IllegalArgumentException.class, early::run).getMessage());
        }
        wrong.close();
        negative.close();
    }
}
