"""A participant on a real PostgreSQL and RabbitMQ: DATABASE_URL, AMQP_URL (scripts/stack.sh), SKALD (the command line)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Iterator, Mapping

import pika
import psycopg
import pytest

import skald

PLAN = "create@orders=compensatable charge@payments=compensatable ship@shipping=pivot pay-out@payments=retriable"
BODY = b' {"id": "1", "cents": 1.50, "big": 9007199254740993}'


def message(step: str, place: int, body: bytes = BODY, back: bool = False, key: str = "k",
            headers: dict[str, str] | None = None) -> skald.Message:
    id = f"{key}:{step}{'.compensate' * back}"
    return skald.Message(step, {
        "x-idempotency-key": id, "x-saga-scope": "", "x-saga": "order", "x-saga-home": "orders",
        "x-saga-itinerary": f"{'back' if back else 'forward'} {place}/4 {PLAN}", **(headers or {})}, body, id)


charge_message = message("charge", 2)


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    server = os.environ["DATABASE_URL"]
    name = f"sdk_python_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
        url = server.rsplit("/", 1)[0] + "/" + name
        subprocess.run([os.environ["SKALD"], "migrate", "--service", "payments"], check=True, env={**os.environ, "DATABASE_URL": url})
        yield url
        c.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(template: str) -> str:
    with psycopg.connect(template, autocommit=True) as c:
        c.execute("DROP TABLE IF EXISTS wallet; CREATE TABLE wallet (cents int CHECK (cents >= 0)); INSERT INTO wallet VALUES (100)")
        for table in ("idempotency", "outbox", "parked", "hosted", "hosted_version"):
            c.execute(f"DELETE FROM skald.{table}")
    return template


class Shop:
    def __init__(self, url: str) -> None:
        self.participant = p = skald.Participant("payments", database_url=url)
        self.raises: list[Any] = []
        self.ran: list[skald.Context] = []
        self.c = psycopg.connect(url, autocommit=True)

        @p.compensatable("order", "charge", attempts=2, first_ms=0)
        def charge(ctx: skald.Context, order: dict[str, Any]) -> None:
            self.ran.append(ctx)
            ctx.sql("UPDATE wallet SET cents = cents - 10")
            ctx.publish("mail", "charged", {"id": order["id"]})
            if self.raises:
                what = self.raises.pop(0)
                if callable(what):
                    what(ctx, order)
                else:
                    raise what

        @charge.compensation
        def refund(ctx: skald.Context, order: dict[str, Any]) -> None:
            ctx.sql("UPDATE wallet SET cents = cents + 10")

        @p.retriable("order", "pay-out")
        def pay_out(ctx: skald.Context, order: dict[str, Any]) -> dict[str, Any]:
            return {**order, "paid": True}

        @p.pivot("trip", "buy", version=3, upcast=lambda data, version: {**data, "was": version})
        def buy(ctx: skald.Context, trip: dict[str, Any]) -> None:
            if self.raises:
                self.raises.pop(0)(ctx, trip)

    def one(self, query: str) -> Any:
        row = self.c.execute(query).fetchone()
        return row[0] if row else None

    def record(self, step: str) -> Any:
        return self.one(f"SELECT status::text FROM skald.idempotency WHERE step = '{step}'")

    def sent(self) -> list[tuple[str, str]]:
        return self.c.execute("SELECT destination, idempotency_key FROM skald.outbox WHERE type <> 'skald.progress' ORDER BY id").fetchall()

    @property
    def cents(self) -> Any:
        return self.one("SELECT cents FROM wallet")


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    made = Shop(url)
    yield made
    made.c.close()


def test_a_step_runs_once_and_hands_on_the_data_as_it_came(shop: Shop) -> None:
    assert shop.participant.process(charge_message) == "step.completed"
    assert shop.participant.process(charge_message) == "step.duplicate"
    assert shop.cents == 90
    assert shop.sent() == [("mail", "k:charge.1.charged"), ("shipping", "k:ship")]
    assert bytes(shop.one("SELECT payload FROM skald.outbox WHERE type = 'ship'")) == BODY
    ctx = shop.ran[0]
    assert (ctx.key, ctx.saga, ctx.attempt, ctx.version, ctx.definition) == ("k:charge", "k", 1, 1, "order")


def test_what_a_step_changes_goes_on(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: order.update(charge="c1")]
    shop.participant.process(charge_message)
    data = json.loads(bytes(shop.one("SELECT payload FROM skald.outbox WHERE type = 'ship'")))
    assert data == {"id": "1", "cents": 1.5, "big": 9007199254740993, "charge": "c1"}
    assert shop.participant.process(message("pay-out", 4)) == "step.completed"
    assert shop.record("pay-out") == "completed"


@pytest.mark.parametrize("before, after", [("1", True), ("true", 1), ("1", 1.0), ("[0]", [False])])
def test_a_change_of_type_is_a_change(shop: Shop, before: str, after: Any) -> None:
    shop.raises = [lambda ctx, order: order.update(approved=after)]
    shop.participant.process(message("charge", 2, f'{{"id": "1", "approved": {before}}}'.encode()))
    assert bytes(shop.one("SELECT payload FROM skald.outbox WHERE type = 'ship'")).decode() == f'{{"id":"1","approved":{json.dumps(after)}}}'


def test_another_order_is_no_change(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: order.update(id=order.pop("id"))]
    assert shop.participant.process(charge_message) == "step.completed"
    assert bytes(shop.one("SELECT payload FROM skald.outbox WHERE type = 'ship'")) == BODY


def test_older_data_is_brought_up_to_date_and_newer_data_waits(shop: Shop) -> None:
    def buy(version: str) -> skald.Message:
        return skald.Message("buy", {"x-idempotency-key": f"v{version}:buy", "x-saga-scope": "", "x-saga": "trip", "x-saga-home": "orders",
                                     "x-saga-itinerary": "forward 1/2 buy@payments=pivot next@orders=retriable",
                                     "x-saga-version": version}, b"{ }")

    assert [shop.participant.process(buy(v)) for v in "234"] == ["step.completed", "step.completed", "step.awaits_deploy"]
    shop.raises = [lambda ctx, trip: trip.update(was=2.0)]
    assert shop.participant.process(buy("1")) == "step.completed"
    sent = shop.c.execute("SELECT payload, headers->>'x-saga-version' FROM skald.outbox WHERE type = 'next' ORDER BY id").fetchall()
    # What has not changed goes on as it came: an older process may be the next.
    assert sent == [(b"{ }", "2"), (b"{ }", "3"), (b'{"was":2.0}', "3")]


def test_a_rejection_undoes_what_was_written_and_compensates(shop: Shop) -> None:
    shop.raises = [skald.Reject("no money")]
    assert shop.participant.process(charge_message) == "step.rejected"
    assert (shop.cents, shop.record("charge")) == (100, "rejected")
    assert shop.sent() == [("orders", "k:create.compensate")]


def test_a_compensation_undoes_its_step_once_and_before_it_keeps_it_from_running(shop: Shop) -> None:
    back = message("charge", 2, back=True)
    shop.participant.process(charge_message)
    assert [shop.participant.process(back), shop.participant.process(back)] == ["step.completed", "step.duplicate"]
    assert shop.cents == 100
    assert shop.participant.process(message("charge", 2, back=True, key="early")) == "step.cancelled"
    assert shop.participant.process(message("charge", 2, key="early")) == "step.duplicate"
    assert shop.cents == 100


def test_a_fault_is_tried_again_until_its_attempts_are_used_up(shop: Shop) -> None:
    shop.raises = [ValueError("broke"), lambda ctx, order: ctx.sql("SELECT 1/0")]
    assert shop.participant.process(charge_message) == "step.failed"
    assert (shop.cents, shop.record("charge"), shop.sent()) == (100, "retrying", [("payments", "k:charge")])
    assert shop.participant.process(message("charge", 2, headers={"x-attempt": "2"})) == "step.attempts_exhausted"
    assert shop.one("SELECT error FROM skald.idempotency").startswith("failed its last attempt: DivisionByZero: division by zero")


def test_a_snooze_uses_no_attempt(shop: Shop) -> None:
    shop.raises = [skald.Snooze(timedelta(hours=1))]
    assert shop.participant.process(charge_message) == "step.snoozed"
    assert shop.one("SELECT attempts || ' ' || snoozes FROM skald.idempotency") == "0 1"
    assert shop.one("SELECT due_at > clock_timestamp() + interval '50 min' FROM skald.outbox WHERE type = 'charge'")


def test_a_snooze_of_no_time_is_the_steps_fault(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: skald.Snooze(30)]  # type: ignore[arg-type]
    assert shop.participant.process(charge_message) == "step.failed"
    assert "timedelta(seconds=30)" in shop.one("SELECT error FROM skald.idempotency")


def test_what_can_never_run_is_parked_with_the_reason(shop: Shop) -> None:
    shop.raises = [skald.Malformed("no customer")]
    assert shop.participant.process(charge_message) == "step.parked"
    assert shop.participant.process(message("charge", 2, body=b"{", key="a")) == "step.parked"
    assert shop.participant.process(message("charge", 2, key="b", headers={"x-saga-itinerary": "x"})) == "delivery.parked"
    assert shop.participant.process(message("create", 1, key="c")) == "step.parked"
    assert shop.participant.process(skald.Message("x", {"a": b"\xff", "b": "\0", "c": {}, "d": True, b"\xff": "e"}, b"\xff\0")) == "delivery.parked"
    said = shop.c.execute("SELECT reason, error FROM skald.parked ORDER BY id").fetchall()
    assert [reason for reason, _ in said] == ["malformed", "malformed", "malformed", "unknown_step", "malformed"]
    assert said[0][1] == "no customer" and "x-saga-itinerary" in said[2][1] and "hosts no step create" in said[3][1]


def test_what_postgresql_refuses_because_of_its_content_is_parked(shop: Shop) -> None:
    large = message("charge", 2, body=b'{"id": "1", "more": "%s"}' % (b"x" * 1048576), key="large")
    assert [shop.participant.process(large), shop.participant.process(large)] == ["step.parked", "step.duplicate"]
    later = message("pay-out", 4, body=large.body, key="later", headers={"x-saga-version": "2"})  # which waits for a deployment
    assert [shop.participant.process(later), shop.participant.process(later)] == ["step.parked", "step.duplicate"]
    rows = shop.c.execute("SELECT p.key, p.reason, p.error, i.status::text FROM skald.parked p JOIN skald.idempotency i USING (scope, key, step)"
                          " ORDER BY p.id").fetchall()
    assert [(key, reason, status) for key, reason, _, status in rows] == [("large", "unprocessable", "parked"), ("later", "unprocessable", "parked")]
    assert "1048599 bytes" in rows[0][2]
    assert shop.sent() == [] and shop.cents == 100
    noise = os.urandom(50000).hex()
    for name, value in (("x-saga-scope", noise), ("skald-body", noise), ("x-\0", "y")):
        assert shop.participant.process(message("charge", 2, key="k" + name[2], headers={name: value, "x-saga-itinerary": "x"})) == "delivery.parked"


def test_a_step_that_ends_its_transaction_is_parked(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: ctx.sql("COMMIT")]
    assert shop.participant.process(charge_message) == "step.parked"
    assert shop.cents == 100
    shop.raises = [lambda ctx, order: ctx.sql("ROLLBACK")]
    assert shop.participant.process(message("charge", 2, key="b")) == "step.parked"
    assert [r for r, in shop.c.execute("SELECT reason FROM skald.parked")] == ["transaction_ended"] * 2


def test_a_lost_connection_and_a_deadlock_are_no_attempt(shop: Shop) -> None:
    def deadlock(ctx: skald.Context, order: Any) -> None:
        ctx.sql("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$")

    def end_session(ctx: skald.Context, order: Any) -> None:
        shop.c.execute("SELECT pg_terminate_backend(%s)", (ctx.connection.info.backend_pid,))
        ctx.sql("SELECT 1")

    shop.raises = [deadlock, end_session, deadlock]
    assert shop.participant.process(charge_message) == "step.completed"
    assert (shop.cents, shop.one("SELECT attempts FROM skald.idempotency")) == (90, 1)


class Overtaken:
    """A connection's lock, which a thread of the step gets between the two next statements."""

    def __init__(self, ctx: skald.Context) -> None:
        self.ctx, self.taken = ctx, 0

    def __enter__(self) -> None:
        self.taken += 1
        if self.taken == 2:
            with pytest.raises(psycopg.errors.DivisionByZero):
                self.ctx.connection.execute("SELECT 1/0")
            with pytest.raises(RuntimeError, match="the step has ended"):
                self.ctx.sql("SELECT 1/0")

    def __exit__(self, *_: object) -> None:
        pass


def test_a_statement_that_fails_behind_the_step_is_the_steps_fault(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: setattr(ctx.connection, "lock", Overtaken(ctx))]
    assert shop.participant.process(charge_message) == "step.failed"
    assert "rolled back: a statement of the step" in shop.one("SELECT error FROM skald.idempotency")
    assert (shop.cents, shop.sent()) == (100, [("payments", "k:charge")])


def test_mistakes_are_said_at_the_start(url: str) -> None:
    with pytest.raises(psycopg.Error, match="belongs to the service payments"):
        skald.Participant("orders", database_url=url).connect()
    p = skald.Participant("payments", database_url=url)
    p.pivot("order", "ship", attempts=0)(lambda ctx, order: None)
    with pytest.raises(psycopg.Error, match="step order/ship: attempts can't be 0"):
        p.connect()
    with pytest.raises(ValueError, match="twice"):
        p.pivot("order", "ship")
    q = skald.Participant("payments", database_url=url)
    q.compensatable("order", "charge")(lambda ctx, order: None)
    with pytest.raises(ValueError, match="has a compensation"):
        q.connect()
    with pytest.raises(psycopg.ProgrammingError, match="(?s)does not exist.*run `skald migrate --service payments`"):
        skald.Participant("payments", database_url=os.environ["DATABASE_URL"]).run()


def test_the_program_of_the_page_runs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "languages.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    monkeypatch.setenv("DATABASE_URL", url)
    known: dict[str, Any] = {}
    exec(blocks[0].replace("payments.run()", ""), known)
    payments = known["payments"]
    with payments.connect().transaction():
        payments.connect().execute("DROP TABLE wallet; CREATE TABLE wallet (customer text, cents int)")
    charge = skald.Message("charge-payment", {
        "x-idempotency-key": "k:charge-payment", "x-saga-scope": "", "x-saga": "place-order", "x-saga-home": "orders",
        "x-saga-itinerary": "forward 1/1 charge-payment@payments=compensatable"}, b'{"customer": "ada", "cents": 5}')
    assert payments.process(charge) == "step.rejected"


PROGRAM = """
import skald
p = skald.Participant("payments")
@p.retriable("order", "pay-out")
def pay_out(ctx, order):
    ctx.sql("UPDATE wallet SET cents = cents - 1")
p.run()
"""


def wait_for(holds: Any) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


class Process:
    """A participant, and who sends it messages."""

    def __init__(self, shop: Shop) -> None:
        self.broker = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        self.channel = self.broker.channel()
        for queue in ("skald.payments", "skald.payments.parked", "skald.payments.database"):
            self.channel.queue_delete(queue)
        self.env = {**os.environ, "DATABASE_URL": shop.participant.database_url}
        self.said = tempfile.NamedTemporaryFile()

    def start(self, more: str = "") -> None:
        program = PROGRAM.replace('"payments"', f'"payments"{more}')
        self.process = subprocess.Popen([sys.executable, "-c", program], env=self.env, stderr=self.said)

    def output(self) -> str:
        return Path(self.said.name).read_text(encoding="utf-8")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, number: int, headers: Mapping[Any, Any] = {}) -> None:
        m = message("pay-out", 4, key=f"k{number}")
        self.channel.basic_publish("skald", "payments", m.body, pika.BasicProperties(
            type=m.type, message_id=m.message_id, headers={**m.headers, **headers}, content_type="application/json", delivery_mode=2))

    def is_ready(self) -> bool:
        return "is ready" in self.output()

    def is_served(self) -> bool:  # a queue is bound some time after it was declared
        try:
            return bool(self.broker.channel().queue_declare("skald.payments", passive=True).method.consumer_count)
        except pika.exceptions.ChannelClosedByBroker:
            return False

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        wait_for(lambda: self.channel.queue_declare("skald.payments", passive=True).method.consumer_count == 0)
        assert self.channel.queue_declare("skald.payments", passive=True).method.message_count == 0  # what was not acked would be back
        self.broker.close()


def test_a_process_takes_what_comes_is_killed_and_ends_when_told(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    for number in range(30):
        p.send(number if number < 10 else number - 10)
        if number % 10 == 5:
            p.kill()
            p.start()
    wait_for(lambda: shop.cents == 80)
    p.end()
    assert (shop.cents, shop.one("SELECT count(*) FROM skald.idempotency")) == (80, 20)


def test_what_a_database_without_writes_does_not_take_is_kept(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    name = shop.one("SELECT current_database()")
    shop.c.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        shop.c.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald/payments'")
        for number in range(20):
            p.send(number)
        wait_for(lambda: "kept until the database takes it" in p.output() or "trying again" in p.output())
    finally:
        shop.c.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    wait_for(lambda: shop.cents == 80)
    p.end()
    assert p.output().count("kept until the database takes it") == 1
    assert "trying again" not in p.output()  # which gives back all that it has, and counts as a delivery of each


def test_a_process_of_another_database_takes_nothing(shop: Shop) -> None:
    p = Process(shop)
    for more in ("", ", declare=False"):
        for queue in ("skald.payments.database", f"skald.payments.database.{shop.one('SELECT id FROM skald.service')}"):
            p.channel.queue_delete(queue)
        url = os.environ["DATABASE_URL_PAYMENTS"]
        for verb in ("migrate", "declare"):
            subprocess.run([os.environ["SKALD"], verb, "--service", "payments"], check=True, env={**p.env, "DATABASE_URL": url})
        p.send(1)
        p.start(more)
        assert p.process.wait(30) == 1
        assert "belong to another database" in p.output() and "check DATABASE_URL" in p.output()
        wait_for(lambda: p.channel.queue_declare("skald.payments", passive=True).method.message_count == 1)
        p.channel.queue_purge("skald.payments")
        Path(p.said.name).write_text("")
    assert shop.cents == 100
    with psycopg.connect(os.environ["DATABASE_URL_PAYMENTS"]) as other:
        row = other.execute("SELECT id::text FROM skald.service").fetchone()
        assert row
    for queue in ("skald.payments.database", f"skald.payments.database.{row[0]}"):
        p.channel.queue_delete(queue)
    p.broker.close()


def test_a_queue_that_is_deleted_is_declared_and_consumed_again(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    p.channel.queue_delete("skald.payments")
    wait_for(p.is_served)
    p.send(1)
    wait_for(lambda: shop.cents == 99)
    p.end()


def test_an_odd_header_takes_no_other_message_along(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    with monkeypatch.context() as patch:
        patch.setattr("pika.data.calendar.timegm", lambda _: 1_700_000_000_000)  # not seconds
        p.send(0, {"sent-at": datetime.now()})
    p.send(1, {b"\xff": "x"})
    for number in range(2, 22):
        p.send(number)
    wait_for(lambda: shop.cents == 78)
    p.end()
    assert "trying again" not in p.output()


def test_a_process_that_waits_for_a_lock_ends_when_told(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    with psycopg.connect(shop.participant.database_url) as other:
        other.execute("LOCK TABLE skald.service")
        p.send(1)
        wait_for(lambda: shop.one("SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database "
                                  "WHERE datname = current_database())"))
        p.process.send_signal(signal.SIGTERM)
        assert p.process.wait(10) == 0
    p.start()
    wait_for(lambda: shop.cents == 99)
    p.end()


def test_an_address_that_is_none_is_said_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="AMQP_URL is not set"):
        skald.Participant("payments", database_url=url, amqp_url="").run()
    with pytest.raises(ValueError, match="AMQP_URL is not the URL of a broker"):
        skald.Participant("payments", database_url=url, amqp_url="localhost").run()
    with pytest.raises(ValueError, match="DATABASE_URL is not set"):
        skald.Participant("payments", database_url="").run()
