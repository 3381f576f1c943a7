package skald

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// process is a participant of its own, and who sends it messages.
type process struct {
	*shop
	*exec.Cmd
	channel *amqp.Channel
	said    *os.File
	lanes   int
}

func (s *shop) process() *process {
	s.Helper()
	p := s.declared()
	p.begin()
	return p
}

// declared has the queues, and no process yet.
func (s *shop) declared() *process {
	s.Helper()
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { broker.Close() })
	channel, err := broker.Channel()
	if err != nil {
		s.Fatal(err)
	}
	for _, queue := range []string{"", ".parked", ".database"} {
		if _, err = channel.QueueDelete("skald.payments"+queue, false, false, false); err != nil {
			s.Fatal(err)
		}
	}
	if said, err := exec.Command(os.Getenv("SKALD"), "declare", "--service", "payments").CombinedOutput(); err != nil {
		s.Fatal(err, string(said))
	}
	said, err := os.Create(s.TempDir() + "/said")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { said.Close() })
	return &process{s, nil, channel, said, 1} // what comes last is done last
}

func (p *process) begin() {
	p.Helper()
	p.Cmd = exec.Command(os.Args[0])
	p.Env, p.Stderr = append(os.Environ(), fmt.Sprint("SKALD_TEST_PARTICIPANT=", p.lanes)), p.said
	if err := p.Start(); err != nil {
		p.Fatal(err)
	}
}

func (p *process) output() string {
	said, err := os.ReadFile(p.said.Name())
	if err != nil {
		p.Fatal(err)
	}
	return string(said)
}

func (p *process) send(key int) { p.sendAs(fmt.Sprint("k", key)) }

func (p *process) sendAs(key string) {
	p.Helper()
	m := message("pay-out", 4, key)
	if err := p.channel.PublishWithContext(ctx, "skald", "payments", false, false, amqp.Publishing{Type: m.Type, MessageId: m.MessageId,
		Headers: m.Headers, Body: m.Body, ContentType: "application/json", DeliveryMode: amqp.Persistent}); err != nil {
		p.Fatal(err)
	}
}

func (p *process) waitFor(holds func() bool) {
	p.Helper()
	for until := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			p.Fatal("it did not come about in 30 s")
		}
	}
}

func (p *process) queue() amqp.Queue {
	p.Helper()
	now, err := p.channel.QueueDeclarePassive("skald.payments", true, false, false, false, nil)
	if err != nil {
		p.Fatal(err)
	}
	return now
}

func (p *process) end() {
	p.Helper()
	_ = p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		p.Fatal(err)
	}
	p.waitFor(func() bool { return p.queue().Consumers == 0 })
	p.same("left", p.queue().Messages, 0) // what was not acked would be back
}

func TestWhatAPolicyHasParkedIsProcessedAndWhatCameTooOftenIsNot(t *testing.T) {
	p := open(t).process()
	for _, why := range []string{"", "expired", "delivery_limit"} {
		m := message("pay-out", 4, "k"+why)
		if why != "" {
			m.Headers["x-first-death-reason"] = why
		}
		m.Headers["x-port"], m.Headers["x-size"] = uint16(1), uint32(2) // as a client for .NET writes them
		if err := p.channel.PublishWithContext(ctx, "skald.parked", "payments", false, false,
			amqp.Publishing{Type: m.Type, MessageId: m.MessageId, Headers: m.Headers, Body: m.Body}); err != nil {
			t.Fatal(err)
		}
	}
	p.waitFor(func() bool { return p.one("SELECT (SELECT cents FROM wallet) - count(*) FROM skald.parked") == "97" })
	p.end()
	p.same("parked", p.one("SELECT reason || ' ' || key FROM skald.parked"), "delivery_limit kdelivery_limit")
}

func TestASilentStepRunsOnceForEachAttempt(t *testing.T) {
	s := open(t)
	idleMax = -1
	defer func() { idleMax = 30 * time.Second }()
	s.acts = []func(*Context) error{func(c *Context) error {
		if err := statement("SET LOCAL idle_in_transaction_session_timeout = 1")(c); err != nil {
			return err
		}
		gone := fmt.Sprintf("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = %d", c.Tx.Conn().PgConn().PID())
		(&process{shop: s}).waitFor(func() bool { return s.one(gone) == "true" })
		return statement("SELECT 1")(c)
	}}
	s.same("events", s.events(charge), "step.failed")
	s.logged("idle-in-transaction timeout")
}

func TestSignaturesThatAreRequiredAreRefusedAtTheStart(t *testing.T) {
	p := New("payments")
	p.DatabaseURL, p.AMQPURL = "none", "amqp://localhost"
	for signatures, words := range map[string]string{"require": "SKALD_SIGNATURES=require: this SDK does not verify",
		"required": "=required: this SDK", "sign": "DATABASE_URL is not", "off": "DATABASE_URL is not"} {
		t.Setenv("SKALD_SIGNATURES", signatures)
		if err := p.Run(ctx); err == nil || !strings.Contains(err.Error(), words) {
			t.Error(signatures, err)
		}
	}
}

func TestAProcessTakesWhatComesIsKilledAndEndsWhenTold(t *testing.T) {
	p := open(t).process()
	for n := 0; n < 30; n++ {
		key := n
		if n >= 10 {
			key -= 10
		}
		p.send(key)
		if n%10 == 5 {
			p.waitFor(func() bool { return p.queue().Messages == 0 })
			_ = p.Process.Kill()
			_ = p.Wait()
			p.begin()
		}
	}
	p.waitFor(func() bool { return p.cents() == "80" })
	p.end()
	p.same("cents", p.cents(), "80")
	p.same("records", p.one("SELECT count(*) FROM skald.idempotency"), "20")
}

func TestWhatKillsAProcessTakesNoOtherDeliveryAlong(t *testing.T) {
	p := open(t).declared()
	p.lanes = 4
	p.begin()
	p.send(0)
	p.waitFor(func() bool { return p.queue().Consumers == 2 }) // then it has the whole prefetch
	_ = p.Process.Kill()
	_ = p.Wait()
	p.waitFor(func() bool { return p.queue().Consumers == 0 })
	p.sendAs("kills")
	for key := 1; key < 20; key++ {
		p.send(key)
	}
	for n := 0; n < 4; n++ {
		p.begin()
		_ = p.Wait()
		p.same("exit code", p.ProcessState.ExitCode(), 3)
	}
	p.waitFor(func() bool { return p.queue().Messages == 20 })
	for n := 0; n < 20; n++ {
		m, _, err := p.channel.Get("skald.payments", false)
		if err != nil {
			t.Fatal(err)
		}
		times := "0"
		if m.MessageId == "kills:pay-out" {
			times = "4"
		}
		p.same(m.MessageId+" came back", strings.Replace(fmt.Sprint(m.Headers["x-delivery-count"]), "<nil>", "0", 1), times)
	}
}

func TestWhatADatabaseWithoutWritesDoesNotTakeIsKept(t *testing.T) {
	s := open(t)
	p, name := s.process(), s.one("SELECT current_database()")
	p.waitFor(func() bool { return p.queue().Consumers > 0 })
	s.exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	defer s.exec("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald/payments'")
	for key := 0; key < 20; key++ {
		p.send(key)
	}
	kept := func() bool { return strings.Contains(p.output(), "kept until the database takes it") }
	givesBack := func() bool { return strings.Contains(p.output(), "trying again") } // and each counts as delivered once more
	p.waitFor(func() bool { return kept() || givesBack() })
	s.exec("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	p.waitFor(func() bool { return s.cents() == "80" })
	p.end()
	s.same("kept and given back", []bool{kept(), givesBack()}, []bool{true, false})
}

func TestAMessageForAnotherDatabaseIsLeftInTheQueue(t *testing.T) {
	s := open(t)
	p, name := s.declared(), "skald.payments.database"
	p.send(1)
	p.waitFor(func() bool { return p.queue().Messages == 1 })
	for _, queue := range []string{name, name + "." + s.database} {
		if _, err := p.channel.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	told, tell := context.WithTimeout(ctx, 10*time.Second)
	defer tell()
	for _, s.Declare = range []bool{true, false} {
		if err := s.Participant.Run(told); err == nil || !strings.Contains(err.Error(), "belong to another database") {
			t.Fatal(err)
		}
	}
	s.same("left", p.queue().Messages, 1)
}

func TestNoDeliveryWaitsForABusyLaneWhileAnotherIsIdle(t *testing.T) {
	s := open(t)
	p, release, ended := s.declared(), make(chan bool), make(chan error, 1)
	if _, err := p.channel.QueueDelete("skald.payments.parked", false, false, false); err != nil { // it declares this one anew
		t.Fatal(err)
	}
	busy := New("payments")
	Retriable(busy, "order", "pay-out", func(c *Context, _ order) error {
		if c.Saga == "k0" {
			<-release
		}
		_, err := c.Tx.Exec(c, "UPDATE wallet SET cents = cents - 1")
		return err
	}, none)
	told, tell := context.WithCancel(ctx)
	defer tell()
	go func() { ended <- busy.Run(told) }()
	for key := 0; key < 20; key++ {
		p.send(key ^ 1) // another one than k0 is the first, which is alone
	}
	p.waitFor(func() bool { return s.cents() == "81" })
	close(release)
	p.waitFor(func() bool { return s.cents() == "80" })
	tell()
	s.same("ended", <-ended, nil)
}

func TestASecondSignalEndsAProcessWhoseStepHangs(t *testing.T) {
	p := open(t).process()
	defer p.Process.Kill()
	p.sendAs("hangs")
	p.waitFor(func() bool {
		return p.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'") == "1"
	})
	_ = p.Process.Signal(syscall.SIGTERM)
	p.waitFor(func() bool { return strings.Contains(p.output(), "terminated: payments waits for the steps under way") })
	_ = p.Process.Signal(syscall.SIGINT)
	_ = p.Wait()
	p.same("ended", fmt.Sprint(p.ProcessState), "signal: interrupt")
}

func TestASignalBehindTheEndOfTheContextEndsNoStep(t *testing.T) {
	said := make(chan string, 1)
	p := &Participant{Service: "payments", Log: func(format string, values ...any) { said <- fmt.Sprintf(format, values...) }}
	parent, end := context.WithCancel(ctx)
	_, stop := p.untilTold(parent)
	end()
	for i := 0; i < 100; i++ { // whoever waits for that end has noticed it
		runtime.Gosched()
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if first := <-said; !strings.HasPrefix(first, "terminated: payments waits") {
		t.Fatal(first)
	}
	stop()
}
