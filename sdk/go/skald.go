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
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

const contendedMax, lostMax = 50, 5 // in a row, before they count as an attempt of the step

var idleMax = 30 * time.Second // of silence, before the server ends a transaction
var contention = map[string]bool{"40001": true, "40P01": true, "55P03": true}

// Context is what a step can use while it runs. It must not be kept.
type Context struct {
	context.Context
	Tx                            pgx.Tx // Skald's transaction: do not end it
	Scope, Saga, Definition, Step string // Saga: its key
	Version, Attempt, work        int    // Version: of the data, as it came. Attempt: from 1. work: of Options.run
	Key                           string // the same for every attempt and delivery: what to give another system as the idempotency key
	taken, event, why             string
	data                          []byte
	changes                       map[string]any
	isOver, isSpoilt              bool // the step has ended Tx or tried to, or has made its connection useless
}

// Set changes one member of the data that goes on. All others go on as they came, also those that the step's type does not have.
func (c *Context) Set(member string, value any) { c.changes[member] = value }

// Publish sends a message of your own if the step commits, at least once. ifUnrouted: "keep" until a queue is bound, or "drop".
func (c *Context) Publish(destination, messageType string, body any, ifUnrouted string) error {
	payload, err := dump(body)
	if err == nil {
		err = c.call(c, "publish($1, $2, $3, $4, $5)", c.taken, destination, messageType, payload, ifUnrouted)
	}
	return err
}

func (c *Context) call(ctx context.Context, function string, values ...any) error {
	_, err := c.Tx.Exec(ctx, "SELECT skald."+function, values...)
	c.isOver = c.isOver || read(err).code == "2D000"
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
	run        func(*Context) error                           // the step or, if it has one, its compensation
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
	options.run = func(c *Context) error {
		var data Data
		if err := json.Unmarshal(c.data, &data); err != nil {
			return Malformed(err.Error())
		}
		return works[c.work](c, data)
	}
	p.steps[name] = options
}

// Participant is a service's process. Add its steps, and change its fields if you must, before Connect or Run.
type Participant struct {
	Service, DatabaseURL, AMQPURL, database string
	Lanes                                   int  // how many deliveries are processed at a time, each on a connection of its own
	Declare                                 bool // the queues: false where this user may not, and `skald declare` has
	Log                                     func(format string, values ...any)
	Pool                                    *pgxpool.Pool // made by Connect
	steps                                   map[string]Options
	warned                                  sync.Map // of what, by connection
}

// New makes a participant from DATABASE_URL and AMQP_URL.
func New(service string) *Participant {
	return &Participant{Service: service, DatabaseURL: os.Getenv("DATABASE_URL"), AMQPURL: os.Getenv("AMQP_URL"), Lanes: 4, Declare: true,
		Log: log.Printf, steps: map[string]Options{}}
}

// Connect opens the database, which must be this service's. What is wrong with the steps is said here.
func (p *Participant) Connect(ctx context.Context) (err error) {
	if p.Lanes < 1 {
		return fmt.Errorf("Lanes are 1 or more, and not %d", p.Lanes)
	} else if set := os.Getenv("SKALD_SIGNATURES"); set != "" && set != "off" && set != "sign" {
		return fmt.Errorf("SKALD_SIGNATURES=%s: this SDK does not verify signatures: let a C++ service run these steps, or unset it", set)
	} else if p.Pool == nil {
		if p.Pool, err = p.open(ctx); err != nil {
			return err
		}
	}
	err = p.Pool.QueryRow(ctx, "SELECT skald.host($1, $2)::text", p.Service, p.steps).Scan(&p.database)
	return p.orMigrate(err)
}

// Process processes a delivery, which can be acked afterwards, and returns what happened, by the name that logs use. givenUp: it is in the queue
// `skald.SERVICE.parked` by the delivery limit, or came back from there. It fails only if the database can't be reached or refuses what Skald
// itself writes, or if it was to be run again when the context had ended, and nothing has happened; or if a failover may lose what has.
func (p *Participant) Process(ctx context.Context, m amqp.Delivery, givenUp bool) (event string, err error) {
	m.Body = append([]byte{}, m.Body...) // not NULL
	for contended, lost := 0, 0; ; {
		began := time.Now()
		c, isLost, err := p.run(m, givenUp)
		met := read(err)
		isContention := contention[met.code]
		if isContention {
			contended++
		}
		if isLost {
			lost++
		}
		isPassing := isContention && contended < contendedMax || isLost && lost < lostMax && time.Since(began) < idleMax
		switch {
		case err == nil || errors.Is(err, errInDoubt):
			return c.event, err
		case c.taken != "" && !isPassing:
			return p.end(m, c, met)
		case !isPassing || ctx.Err() != nil:
			return "", err
		}
		pause(time.Duration(contended+lost) * 5 * time.Millisecond)
	}
}

func pause(longest time.Duration) { time.Sleep(time.Duration(rand.Int63n(int64(longest)))) }

func (p *Participant) run(m amqp.Delivery, givenUp bool) (c *Context, isLost bool, err error) {
	ctx := context.Background() // to its end, whatever the process is told, and whatever the step does with its own
	c = &Context{Context: ctx, changes: map[string]any{}, data: bytes.TrimPrefix(m.Body, []byte("\xef\xbb\xbf"))}
	err = p.Pool.AcquireFunc(ctx, func(connection *pgxpool.Conn) error {
		defer func() { isLost = connection.Conn().IsClosed() && !c.isSpoilt }()
		return p.believed(connection, pgx.BeginTxFunc(ctx, connection, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			c.Tx = tx
			defer p.warned.Delete(tx.Conn().PgConn()) // before COMMIT
			err := tx.QueryRow(ctx, `SELECT coalesce(event, 'step.completed'), coalesce(why, ''), coalesce(scope, ''), coalesce(key, ''),
				       concat(key, ':', step, CASE WHEN is_compensation THEN '.compensate' END), coalesce(definition, ''), coalesce(step, ''),
				       coalesce(version, 0), coalesce(is_compensation::int, 0), coalesce(attempt, 0), coalesce(taken::text, '')
				  FROM skald.take($1, $2, $3, $4, $5, coalesce(nullif($6, ''), 'application/json'), $7)`,
				text(m.Type), headersOf(m.Headers), m.Body, p.steps, text(m.MessageId), text(m.ContentType), givenUp).
				Scan(&c.event, &c.why, &c.Scope, &c.Saga, &c.Key, &c.Definition, &c.Step, &c.Version, &c.work, &c.Attempt, &c.taken)
			if err == nil && c.taken != "" {
				return p.apply(c, m.Body)
			} else if strings.HasSuffix(c.event, ".parked") {
				p.Log("%s of %s: %s", c.event, line(m.MessageId), line(c.why))
			}
			return err
		}))
	})
	return c, isLost, err
}

func (p *Participant) work(c *Context, sent []byte) (err error) {
	o, version, made := p.steps[c.Definition+"/"+c.Step], c.Version, c.Version
	if o.Upcast != nil && version < o.Version {
		version = o.Version
		c.data, err = o.Upcast(c.data, c.Version)
	}
	if err == nil {
		err = o.run(c)
	}
	if err == nil && len(c.changes) > 0 { // else it goes on as it came
		made = version
		sent, err = c.changed()
	}
	if err == nil {
		err = c.call(context.Background(), "done($1, $2, $3)", c.taken, sent, made)
	}
	return err
}

// Run processes what comes until SIGTERM, SIGINT or the end of the context. Connections that are lost are opened again.
func (p *Participant) Run(ctx context.Context) error {
	ctx, stop := p.untilTold(ctx)
	defer stop()
	err := p.checkBroker()
	if err == nil {
		err = p.Connect(ctx)
	}
	for err == nil && ctx.Err() == nil {
		if err = p.consume(ctx); err != nil && !errors.Is(err, errElsewhere) {
			p.Log("trying again with new connections: %v", err)
			pause(2 * time.Second)
			err = nil
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
	if err == nil {
		err = p.declare(channel)
	}
	if err != nil {
		return err
	}
	lanes, ctx := errgroup.WithContext(ctx)
	serve := func(queue string, count, held int, acked func()) {
		_ = channel.Qos(held, 0, false) // of the next consumer, which fails if this does
		deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
		for ; count > 0; count-- {
			lanes.Go(func() error { return p.serve(ctx, channel, deliveries, acked, err) })
		}
	}
	// After a crash, the delivery that caused it is first in the queue. Take it alone, so that no other is counted with it. After 10 s take more:
	// it may only wait for a lock.
	first, acked := context.WithTimeout(ctx, 10*time.Second)
	defer acked()
	serve("skald."+p.Service+".parked", 1, 1, nil)
	serve("skald."+p.Service, 1, 1, acked)
	lanes.Go(func() error {
		if <-first.Done(); p.Lanes > 1 && ctx.Err() == nil {
			serve("skald."+p.Service, p.Lanes-1, 2*p.Lanes-1, acked)
		}
		return nil
	})
	p.Log("%s is ready", p.Service)
	return lanes.Wait()
}

// serve returns nil when the context has ended, too: what is not acked then comes again.
func (p *Participant) serve(ctx context.Context, channel *amqp.Channel, deliveries <-chan amqp.Delivery, acked func(), err error) error {
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case delivery, open := <-deliveries:
			if err = errors.New("the broker has closed the connection or deleted the queue"); open {
				err = p.processKept(ctx, channel, delivery, acked)
			}
		}
	}
	return err
}

// processKept acks it, or returns when the context has ended or the channel is closed. Whatever else fails, the delivery is kept: given back, all
// that is not acked would count as delivered once more, of 50 times.
func (p *Participant) processKept(ctx context.Context, channel *amqp.Channel, m amqp.Delivery, acked func()) error {
	// What a policy or another client has parked is processed; once, because that queue counts no deliveries.
	isParked, isLimit := acked == nil, m.Redelivered || m.Headers["x-first-death-reason"] == "delivery_limit"
	for tries := 0; ctx.Err() == nil && !channel.IsClosed(); tries++ {
		if _, err := p.Process(ctx, m, isParked && isLimit); err == nil {
			if acked != nil {
				defer acked()
			}
			return m.Ack(false)
		} else if tries%100 == 0 { // once in some two minutes
			p.Log("%s is kept until the database takes it: %v", line(m.MessageId), line(err))
		}
		p.Pool.Reset() // the server may have become a standby
		pause(2 * time.Second)
	}
	return nil
}
