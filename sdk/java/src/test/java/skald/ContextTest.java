package skald;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.StringReader;
import java.lang.reflect.Proxy;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLClientInfoException;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.postgresql.PGConnection;
import org.postgresql.PGResultSetMetaData;
import org.postgresql.PGStatement;
import org.postgresql.copy.CopyManager;
import org.postgresql.geometric.PGpoint;
import org.postgresql.jdbc.AutoSave;

/** What a step is lent, and what it leaves behind. */
class ContextTest extends Shop {
    @Test
    void whatAStepRegistersWithTheDriverIsItsOwn() throws Exception {
        acts.add((ctx, order) -> {
            var driver = ctx.connection().unwrap(PGConnection.class);
            driver.addDataType("jsonb", PGpoint.class);
            driver.setPrepareThreshold(-1); // all values in binary
            if (ctx.saga().equals("a")) throw new Reject("no money");
        });
        acts.add(acts.peek());
        assertEquals("step.completed step.rejected step.completed", events(charge, charge("a"), charge("b")));
    }

    @Test
    void aStepThatLeavesACopyOpenEndsAllTheSame() throws Exception {
        Work<Order> copies = (ctx, order) -> ctx.connection().unwrap(PGConnection.class).getCopyAPI()
            .copyIn("COPY wallet FROM stdin");
        acts.add(copies);
        for (Exception thrown : List.of(new IOException("no file"), new Reject("no money"))) acts.add((ctx, order) -> {
            copies.run(ctx, order);
            throw thrown;
        });
        String said = assertTimeoutPreemptively(Duration.ofSeconds(30),
            () -> events(charge, charge("a"), charge("b"), charge("c")));
        assertEquals("step.failed step.failed step.rejected step.completed", said);
        assertEquals("java.lang.IllegalStateException: the step has left a COPY open, java.io.IOException: no file",
            one("SELECT string_agg(error, ', ' ORDER BY key DESC) FROM skald.idempotency WHERE status <> 'rejected'"));
        assertEquals("1 1", one("SELECT min(attempts) || ' ' || max(attempts) FROM skald.idempotency"));
        assertEquals("90", cents());
    }

    @Test
    void anInterruptOrAnAutosaveThatAStepLeavesBehindIsNotTheNextOnes() throws Exception {
        Work<Order> leaves = (ctx, order) -> {
            Thread.currentThread().interrupt();
            ctx.connection().unwrap(PGConnection.class).setAutosave(AutoSave.ALWAYS);
            if (ctx.saga().equals("b")) throw new Reject("no money");
        };
        Work<Order> next = (ctx, order) -> {
            assertFalse(Thread.interrupted());
            assertThrows(SQLException.class, () -> ctx.update("SELECT 1/0"));
        };
        acts.addAll(List.of(leaves, next, leaves, next));
        assertEquals("step.completed step.failed step.rejected step.failed",
            events(charge, charge("a"), charge("b"), charge("c")));
        assertEquals("2",
            one("SELECT count(*) FROM skald.idempotency WHERE error LIKE '%current transaction is aborted%'"));
    }

    @Test
    void aStepThatHasEndedWritesNothing() throws Exception {
        acts.add((ctx, order) -> {});
        acts.add(thrown(new Reject("no money")));
        events(charge, charge("b"));
        for (Context late : ran) {
            assertThrows(IllegalStateException.class, () -> late.update("UPDATE wallet SET cents = 0"));
            assertThrows(IllegalStateException.class, () -> late.set("cents", 0));
        }
        Connection[] kept = {null};
        acts.add((ctx, order) -> kept[0] = ctx.connection());
        events(charge("c"));
        assertThrows(SQLException.class, () -> kept[0].createStatement());
        assertEquals("80", cents());
    }

    @Test
    void aStepMayCloseTheConnectionThatItWasLent() throws Exception {
        acts.add((ctx, order) -> {
            try (Connection c = ctx.connection(); var add = c.createStatement()) {
                add.executeUpdate("UPDATE wallet SET cents = cents - 5");
            }
            ctx.update("UPDATE wallet SET cents = cents - 1");
        });
        assertEquals("step.completed", events(charge));
        assertEquals("84 1", cents() + " " + one("SELECT attempts FROM skald.idempotency"));
    }

    @Test
    void whatAStepHasMadeIsRefusedInTheNextOnesTransaction() throws Exception {
        List<Executable> late = new ArrayList<>();
        Work<Order> keeps = (ctx, order) -> {
            Connection lent = ctx.connection();
            PreparedStatement made = lent.prepareStatement("UPDATE wallet SET cents = 0");
            ResultSet rows = lent.createStatement().executeQuery("SELECT ARRAY[1]");
            rows.next();
            Statement below = rows.getArray(1).getResultSet().getStatement();
            ResultSet tables = lent.getMetaData().getTables(null, null, "wallet", null);
            late.addAll(List.of(made::execute, made::executeBatch, () -> made.getConnection().createStatement(), rows::next,
                () -> rows.getStatement().execute("UPDATE wallet SET cents = 0"), tables::next, () -> tables.getStatement().getConnection()));
            ResultSetMetaData columns = rows.getMetaData();
            assertEquals("", ((PGResultSetMetaData) columns).getBaseTableName(1));
            late.addAll(List.of(() -> below.execute("UPDATE wallet SET cents = 0"), () -> below.getConnection().createStatement(),
                () -> columns.isAutoIncrement(1)));
        };
        acts.add((ctx, order) -> {
            keeps.run(ctx, order);
            throw new Reject("no money");
        });
        acts.add((ctx, order) -> {
            keeps.run(ctx, order);
            throw new IOException("no file");
        });
        acts.add(keeps);
        acts.add((ctx, order) -> {
            assertEquals(30, late.size());
            for (Executable one : late) assertEquals("the step has ended: what it does with `ctx` comes before that",
                assertThrows(SQLException.class, one).getMessage());
        });
        assertEquals("step.rejected step.failed step.completed step.completed",
            events(charge("a"), charge("b"), charge("c"), charge));
        assertEquals("80 1", cents() + " " + shop.connections.idle.size());
    }

    @Test
    void whatAStepHasMadeIsAfterItAsWhatIsClosed() throws Exception {
        List<Object> kept = new ArrayList<>();
        acts.add((ctx, order) -> {
            Connection lent = ctx.connection();
            Statement made = lent.createStatement();
            kept.addAll(List.of(lent, made, made.executeQuery("SELECT 1"), lent.createArrayOf("int", new Object[] {1}), blob(ctx, "a")));
        });
        acts.add((ctx, order) -> {
            Connection lent = (Connection) kept.get(0);
            Statement made = (Statement) kept.get(1);
            ResultSet rows = (ResultSet) kept.get(2), own = ctx.connection().createStatement().executeQuery("SELECT 1");
            for (Object one : kept) assertTrue(Set.of(one).contains(one) && !one.equals(own) && !one.toString().isEmpty());
            for (AutoCloseable one : List.of(lent, made, rows)) one.close();
            ((Array) kept.get(3)).free();
            ((Blob) kept.get(4)).free();
            lent.abort(Runnable::run);
            assertTrue(lent.isClosed() && made.isClosed() && rows.isClosed() && !lent.isValid(1));
            assertThrows(SQLException.class, ((Array) kept.get(3))::getArray);
            assertThrows(SQLClientInfoException.class, () -> lent.setClientInfo("ApplicationName", "late"));
            assertThrows(IllegalStateException.class, ((PGStatement) made)::getPrepareThreshold); // declares no other
            assertTrue(own.next());
        });
        assertEquals("step.completed step.completed 80", events(charge("a"), charge) + " " + cents());
    }

    @Test
    void aConnectionOnWhichAThreadOfAStepIsAtWorkIsNotTheNextOnes() throws Exception {
        Connection before = shop.connections.idle.peek();
        CompletableFuture<Void> isSet = new CompletableFuture<>(), isNext = new CompletableFuture<>();
        List<CompletableFuture<Void>> threads = new ArrayList<>();
        acts.add((ctx, order) -> {
            PreparedStatement made = ctx.connection().prepareStatement("UPDATE wallet SET cents = ?::int");
            Object value = new Object() {
                @Override public String toString() {
                    isSet.complete(null);
                    isNext.join();
                    return "0";
                }
            };
            threads.add(CompletableFuture.runAsync(() -> {
                assertDoesNotThrow(() -> made.setObject(1, value, Types.VARCHAR));
                assertThrows(SQLException.class, made::execute);
            }));
            isSet.join();
            throw new Reject("no money");
        });
        acts.add((ctx, order) -> {
            isNext.complete(null);
            threads.get(0).join();
        });
        assertEquals("step.rejected", events(charge("a")));
        assertTrue(before.isClosed());
        assertEquals("step.completed 90", events(charge) + " " + cents());
    }

    @Test
    void whatAThreadOfAStepWritesBehindTheRollbackIsNotTheNextOnes() throws Exception {
        Connection made = shop.open();
        CompletableFuture<Void> isCalled = new CompletableFuture<>(), isUndone = new CompletableFuture<>();
        List<CompletableFuture<Void>> threads = new ArrayList<>();
        Class<?>[] all = {Connection.class};
        shop.connections.idle.push((Connection) Proxy.newProxyInstance(getClass().getClassLoader(), all, (self, method, values) -> {
            if (method.getName().equals("getCatalog")) { // of the thread: under way since before the end, and done after the rollback
                isCalled.complete(null);
                isUndone.join();
                made.createStatement().execute("UPDATE wallet SET cents = 0");
            }
            Object result = method.invoke(made, values);
            if (method.getName().equals("rollback") && isUndone.complete(null)) threads.get(0).join();
            return result;
        }));
        acts.add((ctx, order) -> {
            Connection lent = ctx.connection();
            threads.add(CompletableFuture.runAsync(() -> assertDoesNotThrow(lent::getCatalog)));
            isCalled.join();
            throw new Reject("no money");
        });
        assertEquals("step.rejected 100", events(charge) + " " + cents());
        assertTrue(made.isClosed());
    }

    @Test
    void whatAStepGotPastWhatItWasLentIsNotTheNextOnes() throws Exception {
        CopyManager[] kept = {null};
        acts.add((ctx, order) -> {
            kept[0] = ctx.connection().unwrap(PGConnection.class).getCopyAPI();
            throw new Reject("no money");
        });
        acts.add((ctx, order) -> assertThrows(SQLException.class,
            () -> kept[0].copyIn("COPY wallet FROM stdin", new StringReader("5\n"))));
        assertEquals("step.rejected step.completed 90", events(charge("a"), charge) + " " + cents());
    }

    /** A large object of the step's own. */
    private static Blob blob(Context ctx, String text) throws SQLException {
        ResultSet rows = ctx.connection().createStatement().executeQuery("SELECT lo_from_bytea(0, convert_to(repeat('" + text + "', 100000), 'UTF8'))");
        rows.next();
        return rows.getBlob(1);
    }

    @Test
    void aStreamThatAStepKeepsDoesNotReadTheNextOnesObject() throws Exception {
        List<InputStream> kept = new ArrayList<>();
        List<OutputStream> written = new ArrayList<>();
        acts.add((ctx, order) -> {
            kept.add(blob(ctx, "a").getBinaryStream());
            kept.get(0).read();
        });
        acts.add((ctx, order) -> {
            InputStream own = blob(ctx, "b").getBinaryStream();
            own.read();
            assertThrows(IOException.class, kept.get(0)::readAllBytes);
            assertEquals(99999, own.readAllBytes().length);
        });
        acts.add((ctx, order) -> {
            written.add(blob(ctx, "c").setBinaryStream(1));
            written.get(0).write(1);
        });
        acts.add((ctx, order) -> assertThrows(IOException.class, () -> written.get(0).close()));
        assertEquals("step.completed ".repeat(4).strip(), events(charge("a"), charge("b"), charge("c"), charge("d")));
    }

    @Test
    void aStreamInMemoryAndOneThatAStepPassesCostNoSession() throws Exception {
        acts.add((ctx, order) -> {
            PreparedStatement made = ctx.connection().prepareStatement("SELECT ?, ?::text, ?::text");
            made.setBinaryStream(1, new ByteArrayInputStream(body));
            made.setAsciiStream(2, new ByteArrayInputStream(body), body.length);
            made.setCharacterStream(3, new StringReader("c"));
            ResultSet rows = made.executeQuery();
            rows.next();
            assertArrayEquals(body, rows.getBinaryStream(1).readAllBytes());
            assertArrayEquals(body, rows.getAsciiStream(2).readAllBytes());
            assertEquals('c', rows.getCharacterStream(3).read());
        });
        Connection before = shop.connections.idle.peek();
        assertEquals("step.completed", events(charge));
        assertEquals(List.of(before), List.copyOf(shop.connections.idle));
    }

    @Test
    void aLimitThatAStepSetsIsNotTheNextOnes() throws Exception {
        acts.add((ctx, order) -> ctx.connection().setNetworkTimeout(Runnable::run, 0));
        acts.add((ctx, order) -> assertTrue(ctx.connection().getNetworkTimeout() > 0));
        assertEquals("step.completed step.completed 80", events(charge("a"), charge) + " " + cents());
    }

    @Test
    void whatIsLentIsWhatItIsForTheDriver() throws Exception {
        acts.add((ctx, order) -> {
            Connection lent = ctx.connection();
            Statement made = lent.createStatement();
            assertTrue(lent.equals(ctx.connection()) && Set.of(lent).contains(ctx.connection()));
            assertTrue(made.equals(made) && made.equals(made.executeQuery("SELECT 1").getStatement()) && !made.equals(lent.createStatement()));
            assertEquals(lent, made.getConnection());
            made.getConnection().close();
            ((PGStatement) made).setPrepareThreshold(7);
            assertEquals(7, ((PGStatement) made).getPrepareThreshold());
            Savepoint before = lent.setSavepoint();
            assertEquals("22012", assertThrows(SQLException.class, () -> made.execute("SELECT 1/0")).getSQLState());
            lent.rollback(before);
            assertTrue(lent.prepareCall("SELECT 1") instanceof PGStatement);
            Array both = lent.createArrayOf("int", new Object[] {1, 2});
            assertArrayEquals(new Integer[] {1, 2}, (Integer[]) both.getArray());
            ctx.update("UPDATE wallet SET cents = cents - cardinality(?)", both);
        });
        assertEquals("step.completed 88", events(charge) + " " + cents());
    }
}
