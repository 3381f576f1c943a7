package skald

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// open has connections to what DATABASE_URL names, as steps need them.
func (p *Participant) open(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(p.DatabaseURL)
	if file := (&fs.PathError{}); errors.As(err, &file) {
		return nil, fmt.Errorf("DATABASE_URL: %w", file)
	} else if err != nil || p.DatabaseURL == "" || torn.MatchString(p.DatabaseURL) { // it may quote the password
		return nil, errors.New("DATABASE_URL is not the URL of a database, such as postgresql://user:password@host:5432/database, " +
			"or has a setting that is none: " + escapes)
	}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 5 * time.Second}).DialContext(ctx, network, address)
		return &wire{Conn: made}, err
	}
	config.ConnConfig.OnNotice = p.noticed
	// What a step registers with the driver is its own: not Skald's, nor the next one's.
	config.BeforeAcquire = func(_ context.Context, c *pgx.Conn) bool { *c.TypeMap() = *pgtype.NewMap(); return true }
	config.MaxConns = int32(p.Lanes) + 1 // and one for what the broker has given up
	config.ConnConfig.RuntimeParams["application_name"] = "skald/" + p.Service
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { // also for what is no transaction of pgx's; poolers take no such option
		_, err := c.Exec(ctx, "SET default_transaction_isolation = 'read committed'")
		return err
	}
	if !strings.Contains(p.DatabaseURL, "target_session_attrs") { // it does not say which of its nodes
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// orMigrate says what to do where there is no schema, or an older one.
func (p *Participant) orMigrate(err error) error {
	if code := read(err).code; code == "3F000" || code == "42883" {
		return fmt.Errorf("%w: run `skald migrate --service %s`", err, p.Service)
	}
	return err
}

// wire counts how often a context has ended under a statement: pgx then sets a deadline that is past, and closes the connection.
type wire struct {
	net.Conn
	cuts atomic.Int64
}

func (w *wire) SetDeadline(at time.Time) error {
	if !at.IsZero() && !at.After(time.Now()) {
		w.cuts.Add(1)
	}
	return w.Conn.SetDeadline(at)
}

func cuts(connection *pgx.Conn) int64 {
	under := connection.PgConn().Conn()
	if encrypted, is := under.(*tls.Conn); is {
		under = encrypted.NetConn()
	}
	if w, is := under.(*wire); is {
		return w.cuts.Load()
	}
	return 0 // of a pool that the program has made
}

// errInDoubt: the server has committed, and waits for its standbys no longer. A failover may lose it.
var errInDoubt = errors.New("committed, but possibly not durably")

func (p *Participant) noticed(connection *pgconn.PgConn, said *pgconn.Notice) {
	if said.Code == "01000" && said.Routine != "exec_stmt_raise" { // a RAISE is a deferred trigger's
		p.warned.Store(connection, said.Message)
	}
}

// believed adds to err the server's warning about its standby, if one came since warned was cleared.
func (p *Participant) believed(connection *pgxpool.Conn, err error) error {
	if said, isWarned := p.warned.LoadAndDelete(connection.Conn().PgConn()); isWarned && err == nil {
		return fmt.Errorf("%w: %v", errInDoubt, said)
	}
	return err
}
