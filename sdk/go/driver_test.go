package skald

import (
	"testing"

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
