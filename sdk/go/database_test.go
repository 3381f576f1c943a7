package skald

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

// absentStandby is a synchronous standby that never answers: COMMITs wait for it, until the end of the test or end().
func absentStandby(s *shop) (cancelled func(func() error) error, end func()) {
	c, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		s.Fatal(err)
	}
	set := func(change string) {
		for _, statement := range []string{"ALTER SYSTEM " + change, "SELECT pg_reload_conf()"} {
			if _, err := c.Exec(ctx, statement); err != nil {
				s.Fatal(err)
			}
		}
	}
	end = func() { set("RESET synchronous_standby_names") }
	s.Cleanup(func() { end(); c.Close() })
	seen := int64(0)
	cancelled = func(work func() error) error {
		made := make(chan error, 1)
		go func() { made <- work() }()
		for {
			select {
			case err := <-made:
				return err
			default:
				tag, err := c.Exec(ctx, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'")
				if err != nil {
					s.Fatal(err)
				}
				seen += tag.RowsAffected()
			}
		}
	}
	set("SET synchronous_standby_names = 'nobody'")
	for seen == 0 { // the server's checkpointer has yet to read the setting
		_ = cancelled(func() error { _, err := db.Exec(ctx, "SELECT pg_logical_emit_message(true, 'test', '')"); return err })
	}
	return cancelled, end
}

func TestACommitThatWasMadeToStopWaitingForAStandbyIsNotBelieved(t *testing.T) {
	s, rejected := open(t), message("charge", 2, "rejected")
	cancelled, end := absentStandby(s)
	s.acts = append(act(nil), act(Reject("no money"))...)
	for i := 0; i < 2; i++ { // and what is there of them is not, later
		for _, one := range []amqp.Delivery{charge, rejected} {
			err := cancelled(func() error { _, err := s.Process(ctx, one, false); return err })
			s.same("in doubt", errors.Is(err, errInDoubt), true)
		}
	}
	s.same("log", s.said, "") // of a fault
	end()
	s.same("events", s.events(charge, rejected), "step.duplicate step.duplicate")
	s.same("cents", s.cents(), "90")
}

func TestACommitInWhichADeferredTriggerWarnsIsBelieved(t *testing.T) {
	s := open(t)
	if _, err := db.Exec(ctx, `CREATE OR REPLACE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'low'; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER warn AFTER UPDATE ON wallet DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()`); err != nil {
		t.Fatal(err)
	}
	s.same("events", s.events(charge), "step.completed")
}

func TestADatabaseWithoutSkaldSaysWhatToDo(t *testing.T) {
	p := New("payments")
	p.DatabaseURL = url[:strings.LastIndex(url, "/")+1] + "template1"
	defer func() { p.Pool.Close() }()
	if err := p.Connect(ctx); err == nil || !strings.Contains(err.Error(), "run `skald migrate --service payments`") {
		t.Fatal(err)
	}
}
