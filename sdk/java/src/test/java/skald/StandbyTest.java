package skald;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Delivery;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** With a synchronous standby that never answers: COMMITs wait for it. */
class StandbyTest extends Shop {
    private int seen;

    private void set(String change) throws SQLException {
        execute("ALTER SYSTEM " + change);
        execute("SELECT pg_reload_conf()");
    }

    @AfterEach
    void end() throws SQLException { set("RESET synchronous_standby_names"); }

    /** Waits for it while COMMITs that wait are made to do so no longer, as an operator may. */
    private <T> CompletableFuture<T> cancelled(CompletableFuture<T> made) throws SQLException {
        while (!made.isDone()) seen += Integer.parseInt(one("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity"
            + " WHERE datname = current_database() AND wait_event = 'SyncRep'"));
        return made;
    }

    @Test
    void aCommitThatWasMadeToStopWaitingForAStandbyIsNotBelieved() throws Exception {
        set("SET synchronous_standby_names = 'nobody'");
        try (Connection other = connected(url)) {
            while (seen == 0) { // the server's checkpointer has yet to read the setting
                cancelled(CompletableFuture.supplyAsync(() -> {
                    try {
                        return other.createStatement().execute("SELECT pg_logical_emit_message(true, 'test', '')");
                    } catch (SQLException error) {
                        throw new IllegalStateException(error);
                    }
                })).join();
            }
        }
        Delivery rejected = charge("rejected");
        acts.add((ctx, order) -> {});
        acts.add(thrown(new Reject("no money")));
        for (Delivery one : List.of(charge, rejected, charge, rejected)) { // and what is there of them is not, later
            String said = cancelled(CompletableFuture.supplyAsync(() -> assertThrows(SQLException.class, () -> shop.process(one, false)).getMessage())).join();
            assertTrue(said.contains("possibly not durably"), said);
        }
        end();
        assertEquals("step.duplicate step.duplicate", events(charge, rejected));
        assertEquals("90", cents());
    }

    @Test
    void aCommitInWhichADeferredTriggerWarnsIsBelieved() throws Exception {
        execute("CREATE OR REPLACE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'low'; RETURN NULL; END $$;"
            + " CREATE CONSTRAINT TRIGGER warn AFTER UPDATE ON wallet DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()");
        assertEquals("step.completed", events(charge));
    }
}
