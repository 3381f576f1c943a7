package skald

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type unread struct{ why error } // and can't be read where it is nil, or has none

func (u *unread) Error() string { return u.why.Error() }

type unwound struct{ *unread }

func (u unwound) Error() string { return "unwound" }
func (u unwound) Unwrap() error { return u.why }

type unasked struct{ error }

func (unasked) As(any) bool { panic("asked") }

type once struct{ reads *int }

func (o once) Error() string {
	if *o.reads++; *o.reads > 1 {
		panic("read twice")
	}
	return "read"
}

func TestAnErrorThatCanNotBeReadAndTheEndOfTheGoroutineAreFaults(t *testing.T) {
	s := open(t)
	var unset *unread
	var none *pgconn.PgError
	s.acts = append(append(append(append(append(act(unset), act(unwound{})...), func(*Context) error { runtime.Goexit(); return nil }),
		act(unasked{errors.New("unasked")})...), act(once{new(int)})...), act(fmt.Errorf("none: %w", none))...)
	for i, why := range []string{"panic: runtime error: invalid memory address or nil pointer dereference",
		"panic: runtime error: invalid memory address or nil pointer dereference",
		"the step has ended its goroutine: runtime.Goexit, or FailNow of a test", "panic: asked", "read",
		"panic: runtime error: invalid memory address or nil pointer dereference"} {
		s.same("event", s.events(message("charge", 2, fmt.Sprint("k", i))), "step.failed")
		s.same("error", s.one(fmt.Sprintf("SELECT error FROM skald.idempotency WHERE key = 'k%d'", i)), why)
	}
	s.same("cents", s.cents(), "100")
}

func TestOnlyTheEndOfSkaldsOwnTransactionParksAStep(t *testing.T) {
	s := open(t)
	ended := func(begin func(*Context) (pgx.Tx, error)) func(*Context) error {
		return func(c *Context) error {
			tx, err := begin(c)
			if err == nil {
				err = tx.Commit(c)
			}
			if err != nil {
				s.Error(err)
			}
			_, err = tx.Exec(c, "SELECT 1")
			return fmt.Errorf("the archive: %w", err)
		}
	}
	s.acts = []func(*Context) error{
		ended(func(c *Context) (pgx.Tx, error) { return db.Begin(c) }),
		ended(func(c *Context) (pgx.Tx, error) { return c.Tx.Begin(c) }),
		func(*Context) error { return &pgconn.PgError{Code: "2D000", Message: "the archive's"} },
		func(c *Context) error {
			_, _ = c.Tx.Exec(c, "ROLLBACK AND CHAIN")
			return c.Publish("mail", "t", 1, "keep")
		},
		statement("ROLLBACK AND CHAIN"),
		statement("DO $$ BEGIN COMMIT; END $$"),
	}
	var all []string
	for range s.acts {
		all = append(all, s.events(message("charge", 2, fmt.Sprint("k", len(all)))))
	}
	s.same("events", strings.Join(all, " "), "step.failed step.failed step.failed step.parked step.parked step.parked")
	s.same("reasons", s.one("SELECT string_agg(reason, ' ') FROM skald.parked"), "transaction_ended transaction_ended transaction_ended")
}

func TestAnErrorWithoutACodeIsNoContention(t *testing.T) {
	s := open(t)
	s.acts = act(&pgconn.PgError{Message: "the archive's"})
	s.same("events", s.events(charge), "step.failed")
}
