"""Steps, one message at a time, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from payments_shop import BODY, Shop, charge_message, message, shop, template, url  # noqa: F401

import skald


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


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class UnspeakableReject(Unspeakable, skald.Reject):
    pass


@pytest.mark.parametrize("raised, said", [
    (SystemExit(3), "SystemExit: 3"), (GeneratorExit("closed"), "GeneratorExit: closed"), (asyncio.CancelledError(), "CancelledError: "),
    (type("Own", (BaseException,), {})("own"), "Own: own"), (Unspeakable(), "Unspeakable: its text can't be had: SystemExit")])
def test_whatever_a_step_raises_is_its_fault(shop: Shop, raised: BaseException, said: str) -> None:
    shop.raises = [raised] * 2
    assert shop.participant.process(charge_message) == "step.failed"
    assert shop.participant.process(message("charge", 2, headers={"x-attempt": "2"})) == "step.attempts_exhausted"
    assert shop.one("SELECT error FROM skald.idempotency") == f"failed its last attempt: {said}"
    assert (shop.cents, shop.sent()[-1]) == (100, ("orders", "k:create.compensate"))


def test_a_step_that_raises_what_psycopg_undoes_in_silence_has_not_completed(shop: Shop) -> None:
    shop.raises = [psycopg.Rollback()]
    assert shop.participant.process(charge_message) == "step.failed"
    assert shop.one("SELECT error FROM skald.idempotency").startswith("RuntimeError: the step raised psycopg.Rollback")
    assert (shop.cents, shop.sent()) == (100, [("payments", "k:charge")])


def test_a_rejection_without_a_text_is_one(shop: Shop) -> None:
    shop.raises = [UnspeakableReject()]
    assert shop.participant.process(charge_message) == "step.rejected"


def test_an_interrupt_leaves_the_call(shop: Shop) -> None:
    shop.raises = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        shop.participant.process(charge_message)
    assert (shop.cents, shop.record("charge")) == (100, None)


def test_a_snooze_uses_no_attempt(shop: Shop) -> None:
    shop.raises = [skald.Snooze(timedelta(hours=1))]
    assert shop.participant.process(charge_message) == "step.snoozed"
    assert shop.one("SELECT attempts || ' ' || snoozes FROM skald.idempotency") == "0 1"
    assert shop.one("SELECT due_at > clock_timestamp() + interval '50 min' FROM skald.outbox WHERE type = 'charge'")


class UntimedSnooze(skald.Snooze):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("snooze, said", [(lambda ctx, order: skald.Snooze(30), "timedelta(seconds=30)"), (UntimedSnooze(), "UntimedSnooze")])  # type: ignore[arg-type]
def test_a_snooze_of_no_time_is_the_steps_fault(shop: Shop, snooze: Any, said: str) -> None:
    shop.raises = [snooze]
    assert shop.participant.process(charge_message) == "step.failed"
    assert said in shop.one("SELECT error FROM skald.idempotency")


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


def test_what_strangers_have_sent_begins_no_line_of_the_log(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    def fails(ctx: skald.Context, order: Any) -> None:
        try:
            raise KeyError("caused")
        except KeyError as error:
            raise groups[0] from error

    odd = ValueError("broke\n\u20ac\rforged")
    odd.__notes__ = ["noted\nforged"]
    groups = [eval("ExceptionGroup('two', [odd, SyntaxError('x\\nforged')])", {"odd": odd}) if sys.version_info >= (3, 11) else odd]
    shop.raises = [skald.Malformed("no\ncustomer"), fails]
    bad = message("charge", 2, key="b", headers={"x-saga-itinerary": "x"})
    for m in (charge_message, message("charge", 2, key="a"), bad):
        shop.participant.process(dataclasses.replace(m, message_id="a\nb"))
    said = [record.getMessage() for record in caplog.records if record.name == "skald"]
    assert said[0] == r"step.parked of a\x0ab: no\x0acustomer" and said[2].startswith(r"delivery.parked of a\x0ab: ")
    assert said[1].startswith("a\\x0ab failed\nTraceback (most recent call last):\n  File ") and "in fails\n" in said[1]
    assert "\nKeyError: 'caused'\n" in said[1] and "ValueError: broke\\x0a\u20ac\\x0dforged" in said[1]
    assert not re.search(r"^\W*forged", caplog.text, re.MULTILINE) and "\r" not in caplog.text


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
    shop.c.execute("CREATE OR REPLACE PROCEDURE commits() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'")
    shop.raises = [lambda ctx, order: ctx.sql("CALL commits()"), psycopg.errors.InvalidTransactionTermination("another server's")]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "cd"] == ["step.parked", "step.failed"]
    assert [r for r, in shop.c.execute("SELECT reason FROM skald.parked")] == ["transaction_ended"] * 3


def end_session(ctx: skald.Context, order: Any) -> None:
    with psycopg.connect(ctx.connection.info.dsn) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (ctx.connection.info.backend_pid,))
    ctx.sql("SELECT 1")


def deadlock(ctx: skald.Context, order: Any) -> None:
    ctx.sql("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$")


def test_a_lost_connection_and_a_deadlock_are_no_attempt(shop: Shop) -> None:
    shop.raises = [deadlock, end_session, deadlock]
    assert shop.participant.process(charge_message) == "step.completed"
    assert (shop.cents, shop.one("SELECT attempts FROM skald.idempotency")) == (90, 1)


def reject_behind_loss(ctx: skald.Context, order: Any) -> None:
    with pytest.raises(psycopg.OperationalError):
        end_session(ctx, order)
    raise skald.Reject("no money")


def test_what_a_step_decides_behind_the_loss_of_its_connection_is_decided_anew(shop: Shop) -> None:
    shop.raises = [reject_behind_loss]
    assert shop.participant.process(charge_message) == "step.completed"
    assert (shop.cents, len(shop.ran)) == (90, 2)


@pytest.mark.parametrize("broke", [deadlock, end_session, reject_behind_loss])
def test_a_process_that_was_told_to_stop_runs_no_delivery_again(shop: Shop, broke: Any) -> None:
    shop.raises = [lambda ctx, order: shop.participant._stop(15, None) or broke(ctx, order)]  # type: ignore[func-returns-value]
    with pytest.raises(psycopg.OperationalError):
        shop.participant.process(charge_message)
    assert (shop.cents, len(shop.ran), shop.record("charge")) == (100, 1, None)


def test_a_session_that_may_have_been_silent_for_too_long_is_an_attempt(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.participant.connect()
    monkeypatch.setattr(skald, "IDLE_MAX", 0, raising=False)
    shop.raises = [end_session]
    assert shop.participant.process(charge_message) == "step.failed"
    assert (len(shop.ran), shop.one("SELECT attempts FROM skald.idempotency")) == (1, 1)


class Overtaken:
    """A connection's lock, which a thread of the step gets before the second next statement; or, for `late`, behind COMMIT."""

    def __init__(self, ctx: skald.Context, late: str = "") -> None:
        self.ctx, self.connection, self.late, self.taken = ctx, ctx.connection, late, 0

    def __enter__(self) -> None:
        self.taken += 1
        if self.late and self.taken == 3:
            self.connection.execute(self.late)
        elif self.taken == 2 and not self.late:
            with pytest.raises(psycopg.errors.DivisionByZero):
                self.connection.execute("SELECT 1/0")
            with pytest.raises(RuntimeError, match="the step has ended"):
                self.ctx.sql("SELECT 1/0")

    def __exit__(self, *_: object) -> None:
        pass

    def acquire(self, timeout: float) -> bool:
        return True

    def release(self) -> None:
        pass


def test_a_statement_that_fails_behind_the_step_is_the_steps_fault(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: setattr(ctx.connection, "lock", Overtaken(ctx))]
    assert shop.participant.process(charge_message) == "step.failed"
    assert "rolled back: a statement of the step" in shop.one("SELECT error FROM skald.idempotency")
    assert (shop.cents, shop.sent()) == (100, [("payments", "k:charge")])


def test_what_a_thread_writes_behind_the_commit_is_undone(shop: Shop) -> None:
    shop.raises = [lambda ctx, order: setattr(ctx.connection, "lock", Overtaken(ctx, "UPDATE wallet SET cents = 0"))]
    assert shop.participant.process(charge_message) == "step.completed"
    assert shop.cents == 90


def test_mistakes_are_said_at_the_start(url: str) -> None:
    with pytest.raises(psycopg.Error, match="belongs to the service payments"):
        skald.Participant("orders", database_url=url).connect()
    p = skald.Participant("payments", database_url=url)
    p.pivot("order", "ship", attempts=0)(lambda ctx, order: None)
    with pytest.raises(psycopg.Error, match="step order/ship: attempts can't be 0"):
        p.connect()
    with pytest.raises(ValueError, match="twice"):
        p.pivot("order", "ship")
    with pytest.raises(TypeError, match="step order/shop has no option attempt, but version, attempts, first_ms, longest_ms, deadline_ms, upcast"):
        p.pivot("order", "shop", attempt=3)
    q = skald.Participant("payments", database_url=url)
    q.compensatable("order", "charge")(lambda ctx, order: None)
    with pytest.raises(ValueError, match="has a compensation"):
        q.connect()
    with pytest.raises(psycopg.ProgrammingError, match="(?s)does not exist.*run `skald migrate --service payments`"):
        skald.Participant("payments", database_url=os.environ["DATABASE_URL"]).run()


@pytest.mark.parametrize("signatures, said", [("require", "SKALD_SIGNATURES=require: this SDK does not verify"), ("required", "=required: this SDK"),
                                              ("sign", "DATABASE_URL is not"), ("off", "DATABASE_URL is not")])
def test_signatures_that_are_required_are_refused_at_the_start(monkeypatch: pytest.MonkeyPatch, signatures: str, said: str) -> None:
    monkeypatch.setenv("SKALD_SIGNATURES", signatures)
    with pytest.raises(ValueError, match=said):
        skald.Participant("payments", database_url="none", amqp_url="amqp://localhost").run()


def python_of(page: str) -> str:
    text = (Path(__file__).parents[3] / "docs" / page).read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(block)


def test_the_program_of_the_page_runs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    known: dict[str, Any] = {}
    exec(python_of("languages.md").replace("payments.run()", ""), known)
    payments = known["payments"]
    with payments.connect().transaction():
        payments.connect().execute("DROP TABLE wallet; CREATE TABLE wallet (customer text, cents int)")
    charge = skald.Message("charge-payment", {
        "x-idempotency-key": "k:charge-payment", "x-saga-scope": "", "x-saga": "place-order", "x-saga-home": "orders",
        "x-saga-itinerary": "forward 1/1 charge-payment@payments=compensatable"}, b'{"customer": "ada", "cents": 5}')
    assert payments.process(charge) == "step.rejected"
    payments.connect().execute("DROP TABLE wallet")  # the other page makes it
    exec(python_of("languages-testing.md"), known)
