package skald

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

func TestWhatAStepRegistersWithTheDriverIsItsOwn(t *testing.T) {
	s := open(t)
	registers := func(end error) func(*Context) error {
		return func(c *Context) error {
			c.Tx.Conn().TypeMap().RegisterType(&pgtype.Type{Name: "jsonb", OID: pgtype.JSONBOID, Codec: pgtype.TextCodec{}})
			return end
		}
	}
	s.acts = []func(*Context) error{registers(nil), registers(Reject("no money"))}
	s.same("events", s.events(charge, message("charge", 2, "a"), message("charge", 2, "b")), "step.completed step.rejected step.completed")
}

func TestAStepIsRejectedWhateverTheDefaultIsolationIs(t *testing.T) {
	for _, said := range []string{"default_transaction_isolation=serializable",
		"options=-c%20default_transaction_isolation%3Dserializable"} {
		t.Setenv("DATABASE_URL", url+"?"+said)
		s := open(t)
		s.acts = append(act(Reject("no money")), act(Snooze(0))...)
		s.same("events", s.events(charge, message("charge", 2, "a")), "step.rejected step.snoozed")
	}
}

func TestAStepMayWorkWithAContextOfItsOwn(t *testing.T) {
	s := open(t)
	s.acts = act(nil)
	s.acts[0] = func(c *Context) error {
		own, cancel := context.WithCancel(c)
		defer cancel()
		c.Context = own
		return c.Publish("mail", "ended", "own", "keep")
	}
	s.same("events", s.events(charge), "step.completed")
}

func TestTheTimeLimitsHoldWhateverTheSessionHas(t *testing.T) {
	s, seen := open(t), ""
	s.acts = []func(*Context) error{func(c *Context) error {
		return c.Tx.QueryRow(c, `SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'),
			current_setting('idle_in_transaction_session_timeout'))`).Scan(&seen)
	}}
	s.same("events", s.events(charge), "step.completed")
	s.same("limits", seen, "5s 30s 30s")
}

func TestAConnectionThatAStepHasMadeUselessIsAnAttemptAtOnce(t *testing.T) {
	s := open(t)
	open := func(c *Context) error {
		rows, err := c.Tx.Query(c, "SELECT generate_series(1, 9)")
		rows.Next()
		return err
	}
	batch := func(c *Context) error {
		queries := &pgx.Batch{}
		queries.Queue("SELECT 1")
		c.Tx.SendBatch(c, queries)
		return nil
	}
	cancelled := func(end func(error) error) func(*Context) error {
		return func(c *Context) error {
			x, cancel := context.WithCancel(c)
			sleeps := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND pid = %d", c.Tx.Conn().PgConn().PID())
			go func() {
				(&process{shop: s}).waitFor(func() bool { return s.one(sleeps) == "1" })
				cancel()
			}()
			_, err := c.Tx.Exec(x, "SELECT pg_sleep(30)")
			return end(err)
		}
	}
	const busy = "conn busy: close rows and batches, and wait for goroutines, before the connection's next use and before the step returns"
	for i, one := range []struct {
		does         func(*Context) error
		event, error string
	}{
		{open, "step.failed", busy},
		{batch, "step.failed", busy},
		{func(c *Context) error { _ = open(c); return Reject("no money") }, "step.rejected", "no money"},
		{cancelled(func(err error) error { return err }), "step.failed", "context canceled"},
		{cancelled(func(error) error { return nil }), "step.failed", "conn closed: an earlier statement's error was ignored, such as the end of its context, which closes the connection"},
		{cancelled(func(error) error { return Reject("too slow") }), "step.rejected", "too slow"},
	} {
		s.acts, s.ran = []func(*Context) error{one.does, one.does}, nil
		s.same("event", s.events(message("charge", 2, fmt.Sprint("k", i))), one.event)
		s.same("runs", len(s.ran), 1)
		s.same("error", s.one(fmt.Sprintf("SELECT error FROM skald.idempotency WHERE key = 'k%d'", i)), one.error)
	}
	s.same("cents", s.cents(), "100")
}
