"""What steps leave behind: open on their connection, which waits for it otherwise for ever, and threads."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Iterator

import psycopg
import pytest
from payments_shop import Shop, message, shop, template, url  # noqa: F401

import skald

LEFT: list[Any] = []


def leave_stream(ctx: skald.Context, order: Any) -> None:
    LEFT.append(ctx.connection.cursor().stream("SELECT generate_series(1, 100000)"))
    next(LEFT[-1])


def leave_copy(ctx: skald.Context, order: Any) -> None:
    LEFT.append(ctx.connection.cursor().copy("COPY wallet FROM STDIN"))
    LEFT[-1].__enter__()


def leave_mistaken_copy(ctx: skald.Context, order: Any) -> None:
    with pytest.raises(psycopg.ProgrammingError):
        ctx.sql("COPY wallet FROM STDIN")


def leave_pipeline(ctx: skald.Context, order: Any) -> None:
    LEFT.append(ctx.connection.pipeline())
    LEFT[-1].__enter__()


def leave_savepoint(ctx: skald.Context, order: Any) -> None:
    LEFT.append(rows(ctx))
    next(LEFT[-1])


def rows(ctx: skald.Context) -> Iterator[Any]:
    with ctx.connection.transaction():
        yield from ctx.sql("SELECT generate_series(1, 5)")


@pytest.mark.parametrize("leave", [leave_stream, leave_copy, leave_mistaken_copy, leave_pipeline, leave_savepoint])
def test_what_a_step_leaves_open_is_its_fault_and_keeps_nobody(shop: Shop, monkeypatch: pytest.MonkeyPatch, leave: Any) -> None:
    def raises(error: Exception) -> Any:
        def act(ctx: skald.Context, order: Any) -> None:
            leave(ctx, order)
            raise error

        return act

    monkeypatch.setattr(skald, "LEFT_MAX", 0.1)
    shop.raises = [leave, raises(skald.Reject("no money")), raises(ValueError("broke"))]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "abcd"] == [
        "step.failed", "step.rejected", "step.failed", "step.completed"]
    assert [error.split(":")[0] for error, in shop.c.execute("SELECT error FROM skald.idempotency WHERE status = 'retrying' ORDER BY key")] == [
        "LeftOpen", "ValueError"]
    assert (shop.cents, len(shop.ran)) == (90, 4)
    LEFT.clear()


def break_stream(ctx: skald.Context, order: Any) -> None:
    # So many that the server has not sent them all when the stream is left.
    for _ in ctx.connection.cursor().stream("SELECT generate_series(1, 100000000)"):
        break


def pass_over(ctx: skald.Context, order: Any) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        ctx.sql("SELECT 1/0")


@pytest.mark.parametrize("act, last", [(break_stream, "canceling statement"), (pass_over, "division by zero")])
def test_a_step_that_goes_on_in_a_transaction_that_is_undone_is_told_why(shop: Shop, act: Any, last: str) -> None:
    shop.raises = [act]
    assert shop.participant.process(message("charge", 2)) == "step.failed"
    said = shop.one("SELECT error FROM skald.idempotency")
    assert "or a stream was left amid its rows" in said and last in said
    assert shop.cents == 100


WRITE = "UPDATE wallet SET cents = cents - 1"


@pytest.mark.parametrize("write", [lambda ctx: ctx.sql(WRITE), lambda ctx: ctx.connection.execute(WRITE)])
@pytest.mark.parametrize("raised, event", [(None, "completed"), (ValueError("broke"), "failed"), (skald.Reject("no money"), "rejected")])
def test_what_a_thread_does_with_the_ctx_of_a_step_that_has_ended_is_refused(
        shop: Shop, raised: Exception | None, event: str, write: Callable[[skald.Context], Any]) -> None:
    refused: list[BaseException] = []
    may_write = threading.Event()
    threads: list[threading.Thread] = []

    def act(ctx: skald.Context, order: Any) -> None:
        def late() -> None:
            may_write.wait()
            try:
                write(ctx)
            except RuntimeError as error:
                refused.append(error)

        threads.append(threading.Thread(target=late))
        threads[-1].start()
        if raised:
            raise raised

    def let_it(*_: Any) -> None:
        may_write.set()
        for thread in threads:
            thread.join()

    shop.raises = [act, act, let_it]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "ab"] == [f"step.{event}"] * 2
    assert shop.participant.process(message("charge", 2, key="c")) == "step.completed"
    assert (shop.cents, len(refused), "the step has ended" in str(refused)) == (70 if event == "completed" else 90, 2, True)


class Slow:
    """A connection's lock, which a thread is about to take."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.about, self.may = lock, threading.Event(), threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.about.set()
            self.may.wait()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lock, name)


@pytest.mark.parametrize("raised, event", [(None, "failed"), (skald.Reject("no money"), "rejected")])
def test_a_statement_that_has_begun_is_not_executed_behind_the_step(
        shop: Shop, monkeypatch: pytest.MonkeyPatch, raised: Exception | None, event: str) -> None:
    def act(ctx: skald.Context, order: Any) -> None:
        def late() -> None:
            with pytest.raises(psycopg.OperationalError):
                ctx.sql(WRITE)

        lock = Slow(ctx.connection.lock)
        ctx.connection.lock = lock  # type: ignore[assignment]
        thread = threading.Thread(target=late)
        left.append((lock, thread))
        thread.start()
        lock.about.wait()
        if raised:
            raise raised

    left: list[tuple[Slow, threading.Thread]] = []
    monkeypatch.setattr(skald, "LEFT_MAX", 0.1)
    shop.raises = [act]
    assert shop.participant.process(message("charge", 2)) == f"step.{event}"
    for lock, thread in left:
        lock.may.set()
        thread.join()
    assert shop.cents == 100
    assert shop.participant.process(message("charge", 2, key="a")) == "step.completed"


HEEDS_NO_CANCEL = "DO $$ BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(1000); END $$"


@pytest.mark.parametrize("raised, event", [(skald.Reject("no money"), "rejected"), (skald.Snooze(timedelta(0)), "snoozed"), (ValueError("x"), "failed")])
def test_a_statement_that_no_cancel_ends_has_ended_before_the_step_is_recorded(shop: Shop, raised: Exception, event: str) -> None:
    def act(ctx: skald.Context, order: Any) -> None:
        def late() -> None:
            with pytest.raises(psycopg.OperationalError):
                ctx.sql(HEEDS_NO_CANCEL)

        ctx.sql("SET LOCAL statement_timeout = 0")
        threads.append(threading.Thread(target=late))
        threads[-1].start()
        while not shop.one(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {ctx._connection.info.backend_pid} AND wait_event = 'PgSleep'"):
            pass
        raise raised

    threads: list[threading.Thread] = []
    shop.raises = [act]
    assert shop.participant.process(message("charge", 2)) == f"step.{event}"
    threads[0].join()
    assert shop.cents == 100


def test_what_holds_both_locks_is_waited_for_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave, waits = threading.Event(), threading.Event(), list[float]()
    lock: Any = None

    class Lock:
        def acquire(self, timeout: float) -> bool:
            waits.append(timeout)
            return bool(lock.acquire(timeout=timeout))

        def __getattr__(self, name: str) -> Any:
            return getattr(lock, name)

    def act(ctx: skald.Context, order: Any) -> None:
        def late() -> None:
            with ctx._lock:
                entered.set()
                leave.wait()

        nonlocal lock
        lock = ctx.connection.lock
        ctx.connection.lock = Lock()  # type: ignore[assignment]
        threading.Thread(target=late).start()
        entered.wait()

    monkeypatch.setattr(skald, "LEFT_MAX", 0.1)
    shop.raises = [act]
    assert shop.participant.process(message("charge", 2)) == "step.failed"
    leave.set()
    assert waits[0] == 0
