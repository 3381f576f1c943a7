// A participant on the functions of docs/languages-sql.md alone, without the SDK, and what one may do wrong: skald conform must name it.
// The first argument is the mistake; `none`: it is right.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	amqp "github.com/rabbitmq/amqp091-go"
)

const steps = `{"conform/charge": {"kind": "compensatable", "attempts": 3, "first_ms": 50, "longest_ms": 200},
	"conform/ship": {"kind": "pivot", "attempts": 3, "first_ms": 50, "longest_ms": 200},
	"conform/pay-out": {"kind": "retriable", "attempts": 3, "first_ms": 50, "longest_ms": 200}}`

var (
	ctx       = context.Background()
	mistake   = os.Args[1]
	db, other *pgx.Conn
	channel   *amqp.Channel

	errRejected = errors.New("rejected, as the data say")
	errWaits    = errors.New("not yet")
)

type order struct {
	Cents     int64  `json:"cents"`
	RejectsAt string `json:"rejects_at"`
	FailsAt   string `json:"fails_at"`
	Fails     int    `json:"fails"`
	WaitsAt   string `json:"waits_at"`
	Marks     bool   `json:"marks"`
	Receipt   string `json:"receipt,omitempty"`
}

type row struct {
	verdict, event, scope, key, step, taken string
	attempt                                 int
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func run(on *pgx.Conn, sql string, values ...any) error {
	_, err := on.Exec(ctx, sql, values...)
	return err
}

func write(on *pgx.Conn, r row, data order) error {
	return run(on, "INSERT INTO conform.ledger (scope, saga, step, cents) VALUES ($1, $2, $3, $4)", r.scope, r.key, r.step, data.Cents)
}

func publish(r row) error {
	body, _ := json.Marshal(map[string]string{"saga": r.key})
	if mistake == "publishes_directly" {
		return channel.PublishWithContext(ctx, "skald", "conform.events", false, false, amqp.Publishing{Type: "shipped",
			MessageId: r.key + ":ship.1.shipped", Headers: amqp.Table{"x-saga-scope": r.scope}, Body: body})
	}
	return run(db, "SELECT skald.publish($1, 'conform.events', 'shipped', $2)", r.taken, body)
}

func work(r row, data order) error {
	on := db
	if mistake == "effect_outside" {
		on = other
	}
	if mistake != "effect_after_done" {
		if err := write(on, r, data); err != nil {
			return err
		}
	}
	if r.step == "ship" {
		if err := publish(r); err != nil {
			return err
		}
	}
	if data.FailsAt == r.step && r.attempt <= data.Fails {
		return errors.New("as the data say")
	}
	if data.RejectsAt == r.step {
		return errRejected
	}
	if data.WaitsAt == r.step {
		open := false
		err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM conform.gate WHERE scope = $1 AND saga = $2)", r.scope, r.key).Scan(&open)
		if err != nil || !open {
			return errWaits
		}
	}
	return nil
}

// changed is the data that goes on: with the receipt, and with what this program does not know, or without it.
func changed(r row, body []byte, data order) []byte {
	marks := r.step == "charge" && data.Marks
	if marks {
		data.Receipt = r.key
	}
	if mistake == "loses_members" {
		body, _ = json.Marshal(data)
	} else if marks {
		all := map[string]json.RawMessage{}
		check(json.Unmarshal(body, &all))
		all["receipt"], _ = json.Marshal(r.key)
		body, _ = json.Marshal(all)
	}
	return body
}

func take(d amqp.Delivery, givenUp bool) (r row) {
	headers := map[string]string{}
	for name, value := range d.Headers {
		headers[name] = strings.ReplaceAll(strings.ToValidUTF8(fmt.Sprint(value), "?"), "\x00", "?")
	}
	check(db.QueryRow(ctx, `SELECT verdict, coalesce(event, ''), coalesce(scope, ''), coalesce(key, ''),
		       concat(step, CASE WHEN is_compensation THEN '.compensate' END), coalesce(attempt, 0), coalesce(taken::text, '')
		  FROM skald.take($1, $2, $3, $4, $5, NULL, $6)`, d.Type, headers, append([]byte{}, d.Body...), steps, d.MessageId, givenUp).
		Scan(&r.verdict, &r.event, &r.scope, &r.key, &r.step, &r.attempt, &r.taken))
	return r
}

func handle(d amqp.Delivery, givenUp bool) error {
	check(run(db, "BEGIN"))
	r, data := take(d, givenUp), order{}
	_ = json.Unmarshal(d.Body, &data)
	if r.verdict != "run" {
		if mistake == "ignores_verdict" && r.event == "step.duplicate" {
			check(write(db, r, data))
		}
		check(run(db, "COMMIT"))
		return d.Ack(false)
	}
	err := work(r, data)
	if err == nil {
		err = run(db, "SELECT skald.done($1, $2)", r.taken, changed(r, d.Body, data))
	}
	if err == nil {
		if mistake == "ack_before_commit" {
			check(d.Ack(false))
		}
		err = run(db, "COMMIT")
	}
	if err == nil {
		if mistake == "effect_after_done" {
			check(write(db, r, data))
		}
		if mistake == "ack_before_commit" {
			return nil
		}
		return d.Ack(false)
	}
	check(run(db, "ROLLBACK"))
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && (refused.Code == "40P01" || refused.Code == "55P03"):
		time.Sleep(50 * time.Millisecond)
		return handle(d, givenUp)
	case errors.As(err, &refused) && mistake == "ack_before_commit":
		return nil
	case errors.Is(err, errRejected) && mistake == "reject_without_rollback":
		check(run(db, "BEGIN"))
		check(write(db, r, data))
		check(run(db, "SELECT skald.reject($1, $2, $3)", r.taken, d.Body, err.Error()))
		check(run(db, "COMMIT"))
	case errors.Is(err, errRejected):
		check(run(db, "SELECT skald.reject($1, $2, $3)", r.taken, d.Body, err.Error()))
	case errors.Is(err, errWaits) && mistake == "snoozes_by_ack":
	case errors.Is(err, errWaits):
		check(run(db, "SELECT skald.snooze($1, $2, interval '100 ms')", r.taken, d.Body))
	default:
		check(run(db, "SELECT skald.fail($1, $2, $3)", r.taken, d.Body, err.Error()))
	}
	return d.Ack(false)
}

func main() {
	var err error
	db, err = pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	other, err = pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	check(err)
	channel, err = broker.Channel()
	check(err)
	check(run(db, "SELECT skald.host('payments', $1)", steps))
	check(channel.Qos(8, 0, false))
	right, err := channel.Consume("skald.payments", "", false, false, false, false, nil)
	check(err)
	parked, err := channel.Consume("skald.payments.parked", "", false, false, false, false, nil)
	check(err)
	for {
		select {
		case d, open := <-right:
			if !open {
				return
			}
			check(handle(d, false))
		case d, open := <-parked:
			if !open {
				return
			}
			check(handle(d, d.Redelivered || d.Headers["x-first-death-reason"] == "delivery_limit"))
		}
	}
}
