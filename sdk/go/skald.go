// Package skald runs steps of Skald's sagas in Go: each happens once in effect. A step is a function, which runs in a transaction of pgx with
// the record that it ran and the message to the next step. docs/languages.md has an example.
package skald

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

var noText = regexp.MustCompile(`[\x00\x{FFFD}]`) // a byte that is no UTF-8 is read as U+FFFD

const contendedMax, lostMax = 50, 5 // in a row, before they count as an attempt of the step

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

// Context is what a step can use while it runs. It must not be kept.
type Context struct {
	context.Context
	Tx                            pgx.Tx // Skald's transaction: do not end it
	Scope, Saga, Definition, Step string // Saga: its key
	Version, Attempt              int    // Version: of the data, as it came. Attempt: from 1
	Key                           string // the same for every attempt and delivery: what to give another system as the idempotency key
	taken, verdict, event, why    string
	work                          int // of Options.run
	data                          []byte
	changes                       map[string]any
}

// Set changes one member of the data that goes on. All others go on as they came, also those that the step's type does not have.
func (c *Context) Set(member string, value any) { c.changes[member] = value }

// Publish sends a message of your own if the step commits, at least once. ifUnrouted: "keep" until a queue is bound, or "drop".
func (c *Context) Publish(destination, messageType string, body any, ifUnrouted string) error {
	payload, err := dump(body)
	if err == nil {
		_, err = c.Tx.Exec(c, "SELECT skald.publish($1, $2, $3, $4, $5)", c.taken, destination, messageType, payload, ifUnrouted)
	}
	return err
}

// Work is a step or its compensation. It returns nil, Reject, Snooze or Malformed; any other error, or a panic, is tried again.
type Work[Data any] func(ctx *Context, data Data) error

// Options say how a step is run; what is left out is as in docs/languages.md.
type Options struct {
	Version    int                                            `json:"version,omitempty"`
	Attempts   int                                            `json:"attempts,omitempty"`
	FirstMS    *int                                           `json:"first_ms,omitempty"`
	LongestMS  *int                                           `json:"longest_ms,omitempty"`
	DeadlineMS int                                            `json:"deadline_ms,omitempty"`
	Kind       string                                         `json:"kind"` // set by the function that adds the step
	Upcast     func(data []byte, version int) ([]byte, error) `json:"-"`    // makes data of an older version data of this one
	run        []func(*Context) error                         // the step and, if it has one, its compensation
}

// Compensatable adds a step that may reject and can be undone.
func Compensatable[Data any](p *Participant, definition, step string, execute, compensate Work[Data], options Options) {
	add(p, definition+"/"+step, "compensatable", options, execute, compensate)
}

// Pivot adds the point of no return: it may reject, and can't be undone.
func Pivot[Data any](p *Participant, definition, step string, execute Work[Data], options Options) {
	add(p, definition+"/"+step, "pivot", options, execute)
}

// Retriable adds a step after the pivot: it is tried until it succeeds.
func Retriable[Data any](p *Participant, definition, step string, execute Work[Data], options Options) {
	add(p, definition+"/"+step, "retriable", options, execute)
}

func add[Data any](p *Participant, name, kind string, options Options, works ...Work[Data]) {
	if _, there := p.steps[name]; there {
		panic("skald: step " + name + " is there twice") // the program is wrong, as with http.Handle
	}
	options.Kind = kind
	for _, work := range works {
		work := work
		options.run = append(options.run, func(c *Context) error {
			var data Data
			if err := json.Unmarshal(c.data, &data); err != nil {
				return Malformed(err.Error())
			}
			return work(c, data)
		})
	}
	p.steps[name] = options
}

// Participant is a service's process. Add its steps, and change its fields if you must, before Connect or Run.
type Participant struct {
	Service, DatabaseURL, AMQPURL string
	Lanes                         int  // how many deliveries are processed at a time, each on a connection of its own
	Declared                      bool // `skald declare` has made the queues, and this user may not
	Log                           func(format string, values ...any)
	Pool                          *pgxpool.Pool // made by Connect
	steps                         map[string]Options
	database                      string
}

// New makes a participant from DATABASE_URL and AMQP_URL.
func New(service string) *Participant {
	return &Participant{service, os.Getenv("DATABASE_URL"), os.Getenv("AMQP_URL"), 4, false, log.Printf, nil, map[string]Options{}, ""}
}

// Connect opens the database, which must be this service's. What is wrong with the steps is said here.
func (p *Participant) Connect(ctx context.Context) error {
	if p.Pool == nil {
		config, err := pgxpool.ParseConfig(p.DatabaseURL)
		if err != nil {
			return err
		}
		config.MaxConns = int32(p.Lanes) + 1 // and one for what the broker has given up
		config.ConnConfig.RuntimeParams["application_name"] = "skald/" + p.Service
		config.ConnConfig.RuntimeParams["options"] += " -c lock_timeout=5000 -c statement_timeout=30000 -c idle_in_transaction_session_timeout=30000"
		if !strings.Contains(p.DatabaseURL, "target_session_attrs") { // it does not say which of its nodes
			config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
		if p.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
			return err
		}
	}
	return p.Pool.QueryRow(ctx, "SELECT skald.host($1, $2)::text", p.Service, p.steps).Scan(&p.database)
}

// Process processes a delivery, which can be acked afterwards, and returns what happened, by the name that logs use. givenUp: it came from the
// queue `skald.SERVICE.parked`. It fails only if the database can't be reached or refuses what Skald itself writes: then nothing has happened.
func (p *Participant) Process(ctx context.Context, m amqp.Delivery, givenUp bool) (event string, err error) {
	m.Body = append([]byte{}, m.Body...) // not NULL
	for contended, lost := 1, 1; ; {
		refused := &pgconn.PgError{}
		c, isLost, err := p.run(ctx, m, givenUp)
		isContention := errors.As(err, &refused) && strings.Contains("40001 40P01 55P03", refused.Code)
		switch {
		case err == nil:
			return c.event, nil
		case isContention && (contended < contendedMax || c.taken == ""):
			time.Sleep(time.Duration(rand.Intn(250)) * time.Millisecond * time.Duration(contended) / contendedMax)
			contended = contended%contendedMax + 1
		case c.taken == "":
			return "", err
		case isLost && lost < lostMax:
			lost++
		default:
			ended := &ending{"fail($1, $2, $3)", err.Error()}
			if refused.Code == "2D000" || errors.Is(err, pgx.ErrTxClosed) {
				ended.call = "give_up($1, $2, 'transaction_ended', $3)"
			}
			if !errors.As(err, &ended) {
				p.Log("%s failed: %v", m.MessageId, err)
			}
			return event, p.Pool.QueryRow(ctx, "SELECT skald."+ended.call, c.taken, m.Body, text(ended.why)).Scan(&event)
		}
	}
}

func (p *Participant) run(ctx context.Context, m amqp.Delivery, givenUp bool) (c *Context, isLost bool, err error) {
	c = &Context{Context: ctx, changes: map[string]any{}, data: bytes.TrimPrefix(m.Body, []byte("\xef\xbb\xbf"))}
	connection, err := p.Pool.Acquire(ctx)
	if err != nil {
		return c, false, err
	}
	defer connection.Release()
	err = pgx.BeginTxFunc(ctx, connection, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		c.Tx = tx
		err := tx.QueryRow(ctx, `SELECT verdict, coalesce(event, 'step.completed'), coalesce(why, ''), coalesce(scope, ''), coalesce(key, ''),
			       coalesce(definition, ''), coalesce(version, 0), coalesce(step, ''), coalesce(is_compensation::int, 0), coalesce(attempt, 0),
			       coalesce(taken::text, ''), concat(key, ':', step, CASE WHEN is_compensation THEN '.compensate' END)
			  FROM skald.take($1, $2, $3, $4, $5, coalesce(nullif($6, ''), 'application/json'), $7)`,
			text(m.Type), headersOf(m.Headers), m.Body, p.steps, text(m.MessageId), text(m.ContentType), givenUp).
			Scan(&c.verdict, &c.event, &c.why, &c.Scope, &c.Saga, &c.Definition, &c.Version, &c.Step, &c.work, &c.Attempt, &c.taken, &c.Key)
		if err == nil && c.verdict == "run" {
			return p.steps[c.Definition+"/"+c.Step].apply(c, m.Body)
		} else if c.event == "delivery.parked" || c.event == "step.parked" {
			p.Log("%s of %s: %s", c.event, m.MessageId, c.why)
		}
		return err
	})
	return c, connection.Conn().IsClosed(), err
}

func (o Options) apply(c *Context, sent []byte) (err error) {
	defer func() {
		if broke := recover(); broke != nil {
			err = fmt.Errorf("panic: %v", broke)
		}
	}()
	var made *int // the version of the data, if it is brought up to date
	if o.Upcast != nil && c.Version < o.Version {
		made = &o.Version
		c.data, err = o.Upcast(c.data, c.Version)
	}
	if err == nil {
		err = o.run[c.work](c)
	}
	if len(c.changes) == 0 {
		made = nil // it goes on as it came
	} else if err == nil {
		sent, err = c.changed()
	}
	if err == nil {
		_, err = c.Tx.Exec(c, "SELECT skald.done($1, $2, $3)", c.taken, sent, made)
	}
	return err
}

func (c *Context) changed() ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(c.data, &members); err != nil {
		return nil, err
	}
	for member, value := range members {
		if _, isChanged := c.changes[member]; !isChanged {
			c.changes[member] = value
		}
	}
	return dump(c.changes)
}

// Run processes what comes until SIGTERM, SIGINT or the end of the context. Connections that are lost are opened again.
func (p *Participant) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := p.Connect(ctx)
	for err == nil && ctx.Err() == nil {
		if broken := p.consume(ctx); ctx.Err() == nil {
			p.Log("trying again with new connections: %v", broken)
			time.Sleep(time.Duration(rand.Int63n(int64(2 * time.Second))))
		}
	}
	return err
}

// consume returns when the context has ended, and what was under way with it, or why it can't go on.
func (p *Participant) consume(ctx context.Context) error {
	broker, err := amqp.Dial(p.AMQPURL)
	if err != nil {
		return err
	}
	defer broker.Close()
	channel, err := broker.Channel()
	if err == nil && !p.Declared {
		err = p.declare(channel)
	}
	if err == nil {
		err = channel.Qos(p.Lanes*2, 0, false)
	}
	if err != nil {
		return err
	}
	lanes, ctx := errgroup.WithContext(ctx)
	queue := "skald." + p.Service
	lanes.Go(func() error { return p.serve(ctx, channel, queue+".parked", true) })
	for lane := 0; lane < p.Lanes; lane++ {
		lanes.Go(func() error { return p.serve(ctx, channel, queue, false) })
	}
	p.Log("%s is ready", p.Service)
	return lanes.Wait()
}

// serve returns nil when the context has ended, too: what is not acked then comes again.
func (p *Participant) serve(ctx context.Context, channel *amqp.Channel, queue string, givenUp bool) error {
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case delivery, open := <-deliveries:
			if !open {
				return errors.New("the broker has closed the connection or deleted the queue")
			}
			err = p.processKept(ctx, channel, delivery, givenUp)
		}
	}
	return err
}

// processKept acks it, or returns when the context has ended or the channel is closed. Whatever else fails, the delivery is kept: given back, all
// that is not acked would count as delivered once more, of 50 times.
func (p *Participant) processKept(ctx context.Context, channel *amqp.Channel, m amqp.Delivery, givenUp bool) error {
	for tries := 0; ctx.Err() == nil && !channel.IsClosed(); tries++ {
		_, err := p.Process(context.Background(), m, givenUp) // to its end, whatever the process is told
		if err == nil {
			return m.Ack(false)
		}
		if tries%100 == 0 { // once in some two minutes
			p.Log("%s is kept until the database takes it: %v", m.MessageId, err)
		}
		p.Pool.Reset() // the server may have become a standby
		time.Sleep(time.Duration(rand.Int63n(int64(2 * time.Second))))
	}
	return nil
}

// declare makes the queues of docs/protocol.md, "Routing". The first is bound to this database: a process with another one is refused.
func (p *Participant) declare(channel *amqp.Channel) error {
	queue := "skald." + p.Service
	parked := amqp.Table{"x-queue-type": "quorum"}
	left := amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "skald.parked", "x-dead-letter-routing-key": p.database}
	limited := amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "skald.parked", "x-dead-letter-routing-key": p.Service,
		"x-delivery-limit": 50, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
	for name, arguments := range map[string]amqp.Table{queue + ".database": left, queue: limited, queue + ".parked": parked} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, arguments); err != nil {
			return err
		}
	}
	for exchange, bound := range map[string]string{"skald": queue, "skald.parked": queue + ".parked"} {
		err := channel.ExchangeDeclare(exchange, "direct", true, false, false, false, nil)
		if err == nil {
			err = channel.QueueBind(bound, p.Service, exchange, false, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func dump(data any) ([]byte, error) {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(data)
	return bytes.TrimSuffix(made.Bytes(), []byte("\n")), err
}

// text is what a text column takes: bytes that are no UTF-8, and NUL, as \xNN.
func text(value string) string {
	return noText.ReplaceAllStringFunc(value, func(found string) string {
		if found == "\uFFFD" {
			return found // it was sent so
		}
		return fmt.Sprintf(`\x%02x`, found)
	})
}

// headersOf has them as text. What has no text form is left out: then take() says which header is missing.
func headersOf(headers amqp.Table) map[string]string {
	made := map[string]string{}
	for name, value := range headers {
		switch value := value.(type) {
		case string, []byte:
			made[text(name)] = text(fmt.Sprintf("%s", value))
		case bool, int, int8, int16, int32, int64, uint8, uint16, uint32:
			made[text(name)] = fmt.Sprint(value)
		case time.Time:
			made[text(name)] = fmt.Sprint(value.Unix())
		}
	}
	return made
}
