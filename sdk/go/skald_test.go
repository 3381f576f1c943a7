// A participant on a real PostgreSQL and RabbitMQ: DATABASE_URL, AMQP_URL (scripts/stack.sh), SKALD (the command line).
package skald

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

const plan = "create@orders=compensatable charge@payments=compensatable ship@shipping=pivot pay-out@payments=retriable"

var (
	ctx   = context.Background()
	body  = []byte(` {"id": "1", "cents": 1.50, "big": 9007199254740993}`)
	url   string
	db    *pgxpool.Pool
	none  = Options{}
	shift = []string{"idempotency", "outbox", "parked", "hosted", "hosted_version"}
)

type order struct {
	ID string `json:"id"`
}

// As a process of its own, it hosts one step and runs until it is told to end or killed.
func TestMain(m *testing.M) {
	if lanes, err := strconv.Atoi(os.Getenv("SKALD_TEST_PARTICIPANT")); err == nil {
		p := New("payments")
		p.Lanes = lanes
		Retriable(p, "order", "pay-out", func(c *Context, _ order) error {
			if c.Saga == "kills" {
				os.Exit(3)
			} else if c.Saga == "hangs" {
				select {}
			}
			_, err := c.Tx.Exec(c, "UPDATE wallet SET cents = cents - 1")
			return err
		}, none)
		if err := p.Run(ctx); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(onDatabase(m))
}

func onDatabase(m *testing.M) int {
	server := os.Getenv("DATABASE_URL")
	admin, err := pgxpool.New(ctx, server)
	name := fmt.Sprintf("sdk_go_%d_%d", os.Getpid(), rand.New(rand.NewSource(time.Now().UnixNano())).Int63())
	url = server[:strings.LastIndex(server, "/")+1] + name
	if err == nil {
		_, err = admin.Exec(ctx, "CREATE DATABASE "+name)
	}
	if err != nil {
		panic(err)
	}
	defer admin.Close()
	defer admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	os.Setenv("DATABASE_URL", url)
	if said, err := exec.Command(os.Getenv("SKALD"), "migrate", "--service", "payments").CombinedOutput(); err != nil {
		panic(fmt.Sprint(err, string(said)))
	}
	if db, err = pgxpool.New(ctx, url); err != nil {
		panic(err)
	}
	defer db.Close()
	return m.Run()
}

type shop struct {
	*testing.T
	*Participant
	acts []func(*Context) error
	ran  []*Context
	said string // its log
}

func open(t *testing.T) *shop {
	s := &shop{T: t, Participant: New("payments")}
	s.Participant.Log = func(format string, values ...any) { s.said += fmt.Sprintf(format+"\n", values...) }
	s.exec("DROP TABLE IF EXISTS wallet; CREATE TABLE wallet (cents int CHECK (cents >= 0)); INSERT INTO wallet VALUES (100)")
	for _, table := range shift {
		s.exec("DELETE FROM skald." + table)
	}
	zero := 0
	Compensatable(s.Participant, "order", "charge", func(c *Context, data order) error {
		s.ran = append(s.ran, c)
		if _, err := c.Tx.Exec(c, "UPDATE wallet SET cents = cents - 10"); err != nil {
			return err
		}
		if err := c.Publish("mail", "charged", data, "keep"); err != nil {
			return err
		}
		if len(s.acts) == 0 {
			return nil
		}
		act := s.acts[0]
		s.acts = s.acts[1:]
		return act(c)
	}, func(c *Context, _ order) error {
		_, err := c.Tx.Exec(c, "UPDATE wallet SET cents = cents + 10")
		return err
	}, Options{Attempts: 2, FirstMS: &zero})
	Retriable(s.Participant, "order", "pay-out", func(*Context, map[string]any) error { return nil }, none)
	Pivot(s.Participant, "trip", "buy", func(c *Context, _ any) error {
		if len(s.acts) > 0 {
			return s.acts[0](c)
		}
		return nil
	}, Options{Version: 3,
		Upcast: func(data []byte, version int) ([]byte, error) { return []byte(fmt.Sprintf(`{"was":%d}`, version)), nil }})
	if err := s.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Pool.Close() })
	return s
}

func (s *shop) exec(query string) {
	s.Helper()
	if _, err := db.Exec(ctx, query); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) one(query string) (value string) {
	s.Helper()
	if err := db.QueryRow(ctx, "SELECT ("+query+")::text").Scan(&value); err != nil {
		s.Fatal(query, err)
	}
	return value
}

func (s *shop) same(what, is, shall any) {
	s.Helper()
	if !reflect.DeepEqual(is, shall) {
		s.Fatalf("%v: %v, and it should be %v", what, is, shall)
	}
}

func (s *shop) logged(words ...string) {
	s.Helper()
	for _, one := range words {
		if !strings.Contains(s.said, one) {
			s.Fatalf("no %q in %q", one, s.said)
		}
	}
}

func (s *shop) cents() string { s.Helper(); return s.one("SELECT cents FROM wallet") }

func (s *shop) sent() string {
	s.Helper()
	return s.one("SELECT string_agg(destination || ' ' || idempotency_key, ', ' ORDER BY id) FROM skald.outbox WHERE type <> 'skald.progress'")
}

// events processes them, and says what happened.
func (s *shop) events(messages ...amqp.Delivery) string {
	s.Helper()
	var all []string
	for _, m := range messages {
		event, err := s.Process(ctx, m, false)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, event)
	}
	return strings.Join(all, " ")
}

func message(step string, place int, key string, more ...string) amqp.Delivery {
	direction, id := "forward", key+":"+step
	m := amqp.Delivery{Type: step, Body: body}
	headers := amqp.Table{"x-saga-scope": "", "x-saga": "order", "x-saga-home": "orders"}
	for i := 0; i+1 < len(more); i += 2 {
		switch more[i] {
		case "back":
			direction, id = "back", id+".compensate"
		case "body":
			m.Body = []byte(more[i+1])
		default:
			headers[more[i]] = more[i+1]
		}
	}
	m.MessageId, headers["x-idempotency-key"] = id, id
	if headers["x-saga-itinerary"] == nil {
		headers["x-saga-itinerary"] = fmt.Sprintf("%s %d/4 %s", direction, place, plan)
	}
	m.Headers = headers
	return m
}

var charge = message("charge", 2, "k")

func act(err error) []func(*Context) error {
	return []func(*Context) error{func(*Context) error { return err }}
}

func statement(sql string) func(*Context) error {
	return func(c *Context) error { _, err := c.Tx.Exec(c, sql); return err }
}

func TestAStepRunsOnceAndHandsOnTheDataAsItCame(t *testing.T) {
	s := open(t)
	s.same("events", s.events(charge, charge), "step.completed step.duplicate")
	s.same("cents", s.cents(), "90")
	s.same("sent", s.sent(), "mail k:charge.1.charged, shipping k:ship")
	s.same("data", s.one("SELECT convert_from(payload, 'UTF8') FROM skald.outbox WHERE type = 'ship'"), string(body))
	c := s.ran[0]
	s.same("context", []any{c.Key, c.Saga, c.Attempt, c.Version, c.Definition, c.Step}, []any{"k:charge", "k", 1, 1, "order", "charge"})
}

func TestCopiesAtTheSameTimeRunOnce(t *testing.T) {
	s := open(t)
	var all sync.WaitGroup
	events := make(chan string, 8)
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			event, _ := s.Process(ctx, charge, false)
			events <- event
		}()
	}
	all.Wait()
	close(events)
	count := map[string]int{}
	for event := range events {
		count[event]++
	}
	s.same("events", count["step.completed"], 1)
	s.same("cents", s.cents(), "90")
}

func TestWhatAStepSetsGoesOnWithAllItsTypeDoesNotHave(t *testing.T) {
	s := open(t)
	s.acts = []func(*Context) error{func(c *Context) error { c.Set("charge", "<c1>"); return nil }}
	s.events(charge)
	s.same("data", s.one("SELECT convert_from(payload, 'UTF8') FROM skald.outbox WHERE type = 'ship'"),
		`{"big":9007199254740993,"cents":1.50,"charge":"<c1>","id":"1"}`)
	s.acts = []func(*Context) error{func(c *Context) error { c.Set("charge", make(chan int)); return nil }}
	s.same("what is no JSON", s.events(message("charge", 2, "b")), "step.failed")
	s.same("pay-out", s.events(message("pay-out", 4, "k", "body", "\xef\xbb\xbf{}")), "step.completed")
}

func TestOlderDataIsBroughtUpToDateAndNewerDataWaits(t *testing.T) {
	s := open(t)
	buy := func(version string) amqp.Delivery {
		return message("buy", 1, "v"+version, "x-saga", "trip", "x-saga-version", version, "body", "{ }",
			"x-saga-itinerary", "forward 1/2 buy@payments=pivot next@orders=retriable")
	}
	s.same("events", s.events(buy("2"), buy("3"), buy("4")), "step.completed step.completed step.awaits_deploy")
	s.acts = []func(*Context) error{func(c *Context) error { c.Set("bought", true); return nil }}
	s.same("changed", s.events(buy("1")), "step.completed")
	s.same("sent", s.one("SELECT string_agg(convert_from(payload, 'UTF8') || (headers->>'x-saga-version'), ' ' ORDER BY id) "+
		"FROM skald.outbox WHERE type = 'next'"), `{ }2 { }3 {"bought":true,"was":1}3`) // an older process may be the next
}

func TestARejectionUndoesWhatWasWrittenAndCompensates(t *testing.T) {
	s := open(t)
	s.acts = act(fmt.Errorf("charging: %w", Reject("no money")))
	s.same("events", s.events(charge), "step.rejected")
	s.same("cents", s.cents(), "100")
	s.same("record", s.one("SELECT status FROM skald.idempotency"), "rejected")
	s.same("sent", s.sent(), "orders k:create.compensate")
}

func TestACompensationUndoesItsStepOnceAndBeforeItKeepsItFromRunning(t *testing.T) {
	s := open(t)
	back := message("charge", 2, "k", "back", "")
	s.same("events", s.events(charge, back, back), "step.completed step.completed step.duplicate")
	early := s.events(message("charge", 2, "early", "back", ""), message("charge", 2, "early"))
	s.same("early", early, "step.cancelled step.duplicate")
	s.same("cents", s.cents(), "100")
}

func TestAFaultIsTriedAgainUntilItsAttemptsAreUsedUpASnoozeUsesNone(t *testing.T) {
	s := open(t)
	s.acts = append(act(Snooze(time.Hour)), func(*Context) error { panic("broke") }, statement("SELECT 1/0"))
	s.same("snooze", s.events(charge), "step.snoozed")
	s.same("due", s.one("SELECT due_at > clock_timestamp() + interval '50 min' FROM skald.outbox WHERE type = 'charge'"), "true")
	s.same("used", s.one("SELECT attempts || ' ' || snoozes FROM skald.idempotency"), "0 1")
	s.same("panic", s.events(message("charge", 2, "k", "x-snoozes", "1")), "step.failed")
	s.same("sent", s.sent(), "payments k:charge, payments k:charge")
	s.logged("k:charge: panic: broke", "skald_test.go") // where
	s.same("last", s.events(message("charge", 2, "k", "x-snoozes", "1", "x-attempt", "2")), "step.attempts_exhausted")
	s.same("error", s.one("SELECT error FROM skald.idempotency"),
		"failed its last attempt: ERROR: division by zero (SQLSTATE 22012)")
	s.same("cents", s.cents(), "100")
}

func TestWhatCanNeverRunIsParkedWithTheReason(t *testing.T) {
	s := open(t)
	ends := func(c *Context) error { _ = c.Tx.Commit(c); return nil }
	s.acts = append(act(Malformed("no customer")), statement("COMMIT"), statement("ROLLBACK"), ends)
	s.same("events", s.events(charge, message("charge", 2, "a"), message("charge", 2, "b"), message("charge", 2, "c"),
		message("charge", 2, "d", "body", "{"), message("charge", 2, "e", "body", `{"id": 1}`), message("create", 1, "f")),
		strings.TrimSpace(strings.Repeat("step.parked ", 7)))
	odd := amqp.Delivery{MessageId: "a\nb", Type: "\x00x", Headers: amqp.Table{"a": []byte{255}, "b": "\x00", "c": amqp.Table{}, "d": true, "e": "\xff"}, Body: []byte{255, 0}}
	s.same("events", s.events(message("charge", 2, "g", "x-saga-itinerary", "x"), odd), "delivery.parked delivery.parked")
	s.same("reasons", s.one("SELECT string_agg(reason, ' ' ORDER BY id) FROM skald.parked"),
		"malformed transaction_ended transaction_ended transaction_ended malformed malformed unknown_step malformed malformed")
	s.same("why", s.one("SELECT error FROM skald.parked ORDER BY id LIMIT 1"), "no customer")
	s.logged("step.parked of k:charge: no customer", "delivery.parked of g:charge: header x-saga-itinerary", `delivery.parked of a\x0ab: `)
	s.same("as text", s.one(`SELECT concat(type, headers->>'a', headers->>'b', headers->>'d', headers->>'e') FROM skald.parked ORDER BY id DESC LIMIT 1`),
		`\x00x\xff\x00true\xff`)
	s.same("cents", s.cents(), "100")
}

func TestALostConnectionAndADeadlockAreNoAttempt(t *testing.T) {
	s := open(t)
	deadlock := statement("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$")
	lost := func(c *Context) error {
		s.exec(fmt.Sprintf("SELECT pg_terminate_backend(%d)", c.Tx.Conn().PgConn().PID()))
		_, err := c.Tx.Exec(c, "SELECT 1")
		return err
	}
	s.acts = []func(*Context) error{deadlock, deadlock, lost, deadlock, lost, lost, deadlock, lost, deadlock}
	s.same("events", s.events(charge), "step.completed")
	s.same("cents", s.cents(), "90")
	s.same("attempts", s.one("SELECT attempts FROM skald.idempotency"), "1")
	s.acts, s.ran = []func(*Context) error{lost, lost, deadlock, lost, lost, lost}, nil
	s.same("events", s.events(message("charge", 2, "a")), "step.failed")
	s.same("runs", len(s.ran), 6)
	s.acts, s.ran = nil, nil
	for i := 0; i < 60; i++ {
		s.acts = append(s.acts, func(c *Context) error { _ = lost(c); return &pgconn.PgError{Code: "40001"} })
	}
	s.same("events", s.events(message("charge", 2, "b")), "step.failed")
	s.same("runs", len(s.ran), contendedMax)
}

func TestWhoWaitsForALockEndsWhenTold(t *testing.T) {
	s := open(t)
	locked, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Rollback(ctx)
	if _, err = locked.Exec(ctx, "LOCK skald.service"); err != nil {
		t.Fatal(err)
	}
	told, tell := context.WithCancel(ctx)
	tell()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Process(told, charge, false)
		ended <- err
	}()
	select {
	case err = <-ended:
		s.same("error", fmt.Sprint(err), "ERROR: canceling statement due to lock timeout (SQLSTATE 55P03)")
	case <-time.After(30 * time.Second):
		t.Fatal("it still waits")
	}
}

func TestMistakesAreSaidAtTheStart(t *testing.T) {
	s := open(t)
	expect := func(p *Participant, words string) {
		t.Helper()
		if err := p.Connect(ctx); err == nil || !strings.Contains(err.Error(), words) {
			t.Fatal(err)
		}
		p.Pool.Close()
	}
	expect(New("orders"), "belongs to the service payments")
	p, negative := New("payments"), -1
	Pivot(p, "order", "ship", func(*Context, order) error { return nil }, Options{FirstMS: &negative})
	expect(p, "step order/ship: first_ms can't be -1")
	s.Lanes = 0
	s.same("Lanes", fmt.Sprint(s.Connect(ctx)), "Lanes are 1 or more, and not 0")
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "order/charge is there twice") {
			t.Fatal(said)
		}
	}()
	Retriable(s.Participant, "order", "charge", func(*Context, order) error { return nil }, none)
}
