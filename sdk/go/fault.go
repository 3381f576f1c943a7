package skald

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

type ending struct{ call, why string }

func (e *ending) Error() string { return e.why }

// Reject is returned for a business rejection: what the step wrote is undone, and the saga compensates. Not after the pivot.
func Reject(reason string) error { return &ending{"reject($1, $2, $3)", reason} }

// Snooze is returned for "not yet": what the step wrote is undone, and it runs again after wait. It uses no attempt.
func Snooze(wait time.Duration) error {
	return &ending{"snooze($1, $2, $3::text::interval)", fmt.Sprint(wait.Microseconds(), " us")}
}

// Malformed is returned where a step can't work with its data: the delivery is parked, and the saga is stuck until an operator looks.
func Malformed(why string) error { return &ending{"give_up($1, $2, 'malformed', $3)", why} }

// fault is an error that was read: what is asked of it later runs no code of the step's, which may panic.
type fault struct {
	why, code string // the server's
	ended     *ending
	hasClosed bool // a transaction of pgx's was used after its end
}

func (f *fault) Error() string { return f.why }

func read(err error) *fault {
	if err == nil {
		return &fault{}
	} else if f, isRead := err.(*fault); isRead {
		return f
	}
	refused := &pgconn.PgError{}
	f := &fault{why: err.Error(), hasClosed: errors.Is(err, pgx.ErrTxClosed)}
	errors.As(err, &f.ended)
	if errors.As(err, &refused) {
		f.code = refused.Code
	}
	for met, advice := range map[string]string{
		"conn busy":   "close rows and batches, and wait for goroutines, before the connection's next use and before the step returns",
		"conn closed": "an earlier statement's error was ignored, such as the end of its context, which closes the connection"} {
		if strings.HasSuffix(f.why, met) {
			f.why += ": " + advice
		}
	}
	return f
}

// apply runs the step on a goroutine, which it can end.
func (p *Participant) apply(c *Context, sent []byte) error {
	connection, ended := c.Tx.Conn(), make(chan error)
	before := cuts(connection)
	go p.guarded(c, sent, ended)
	err := <-ended
	status := connection.PgConn().TxStatus()
	c.isOver = c.isOver || status == 'I' || status == 'E' && read(err).code == "2D000" // refused: a COMMIT in a procedure, say
	c.isSpoilt = connection.PgConn().IsBusy() || cuts(connection) > before
	return err
}

func (p *Participant) guarded(c *Context, sent []byte, ended chan<- error) {
	err := errors.New("the step has ended its goroutine: runtime.Goexit, or FailNow of a test")
	defer func() {
		if broke := recover(); broke != nil {
			err = fmt.Errorf("panic: %v", broke)
			p.Log("%s: %v\n%s", line(c.Key), line(err), debug.Stack())
		}
		ended <- err
	}()
	made := p.work(c, sent)
	if made != nil {
		made = read(made)
	}
	err = made
}

// end says what has become of a step that was undone.
func (p *Participant) end(m amqp.Delivery, c *Context, met *fault) (event string, _ error) {
	ended := met.ended
	if c.isOver && (met.code == "2D000" || met.hasClosed) {
		ended = &ending{"give_up($1, $2, 'transaction_ended', $3)", met.why}
	} else if ended == nil {
		ended = &ending{"fail($1, $2, $3)", met.why}
		p.Log("%s failed: %v", line(m.MessageId), line(met.why))
	}
	ctx := context.Background()
	err := p.Pool.AcquireFunc(ctx, func(connection *pgxpool.Conn) error {
		return p.believed(connection, connection.QueryRow(ctx, "SELECT skald."+ended.call, c.taken, m.Body, text(ended.why)).Scan(&event))
	})
	if strings.HasSuffix(event, ".parked") {
		p.Log("%s of %s: %s", event, line(m.MessageId), line(ended.why))
	}
	return event, err
}
