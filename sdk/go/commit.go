package skald

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

// errInDoubt: the server has committed, and waits for its standbys no longer. A failover may lose it.
var errInDoubt = errors.New("committed, but possibly not durably")

func (p *Participant) noticed(connection *pgconn.PgConn, said *pgconn.Notice) {
	if said.Code == "01000" && said.Routine != "exec_stmt_raise" { // a RAISE is a deferred trigger's
		p.warned.Store(connection, said.Message)
	}
}

// believed has what came of a COMMIT on the connection: an error too, if the server has warned since warned was last cleared for it.
func (p *Participant) believed(connection *pgxpool.Conn, err error) error {
	if said, isWarned := p.warned.LoadAndDelete(connection.Conn().PgConn()); isWarned && err == nil {
		return fmt.Errorf("%w: %v", errInDoubt, said)
	}
	return err
}

// end says what has become of a step that was undone.
func (p *Participant) end(m amqp.Delivery, c *Context, met *fault) (event string, _ error) {
	ended := &ending{"fail($1, $2, $3)", met.why}
	if c.isOver && (met.code == "2D000" || met.hasClosed) {
		ended.call = "give_up($1, $2, 'transaction_ended', $3)"
	} else if !errors.As(met, &ended) {
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
