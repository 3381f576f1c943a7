"""What a step is given: what it uses while it runs, and what it raises."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Iterator, Mapping, Sequence

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from ._left import left_open
from ._text import dump, text


class Reject(Exception):
    """A business rejection: the step's writes are undone, and the saga compensates. Not after the pivot."""


class Snooze(Exception):
    """Not yet: the step's writes are undone, and it runs again after `wait`. It uses no attempt."""

    def __init__(self, wait: timedelta) -> None:
        if not isinstance(wait, timedelta):
            raise TypeError(f"Snooze waits for a timedelta, such as timedelta(seconds=30), and not for {wait!r}")
        super().__init__(f"again in {wait}")
        self.wait = wait


class Malformed(Exception):
    """The step can't work with this data: the delivery is parked, and the saga is stuck until an operator looks."""


class Ended(Exception):
    """Skald's own transaction was ended by the step, or by an end that the server has refused."""


def ending(error: BaseException) -> tuple[str, Any]:
    """The SQL function that records what a step has raised, and that one's last argument."""
    if isinstance(error, Snooze) and isinstance(getattr(error, "wait", None), timedelta):
        return "snooze(%s, %s, %s)", error.wait
    for kind, call in ((Reject, "reject(%s, %s, %s)"), (Malformed, "give_up(%s, %s, 'malformed', %s)"), (Ended, "give_up(%s, %s, 'transaction_ended', %s)")):
        if isinstance(error, kind):
            return call, text(error)
    return "fail(%s, %s, %s)", text(f"{type(error).__name__}: {text(error)}")


@contextmanager
def own(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Within Skald's transaction: the same error of another one is a fault of the step's like any other."""
    try:
        yield
    except errors.InvalidTransactionTermination as error:
        if connection.info.transaction_status in (TransactionStatus.IDLE, TransactionStatus.INERROR):
            raise Ended(text(error)) from error
        raise


@dataclass(frozen=True)
class Context:
    """What a step can use while it runs. It must not be kept."""

    _connection: psycopg.Connection[Any] = field(repr=False)
    scope: str
    saga: str  # its key
    definition: str
    version: int  # of the data, as it came
    step: str
    attempt: int  # from 1
    key: str
    """The derived key, the same for every attempt and every delivery: what to give another system as the idempotency key."""
    taken: str
    _ended: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    _lock: Any = field(default_factory=threading.RLock, repr=False, compare=False)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """In Skald's transaction: do not end it, and do not keep it."""
        if self._ended.is_set():
            raise RuntimeError("the step has ended: what it does with `ctx` comes before that")
        return self._connection

    def sql(self, query: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> psycopg.Cursor[Any]:
        with self._lock:  # what has begun here is executed before the step's end, or never
            return self.connection.execute(query, values)

    def publish(self, destination: str, type: str, body: Any, *, if_unrouted: str = "keep") -> None:
        """Sends a message of your own if the step commits, at least once."""
        self.sql("SELECT skald.publish(%s, %s, %s, %s, %s)", (self.taken, destination, type, dump(body), if_unrouted))

    def _end(self, seconds: float) -> str:
        self._ended.set()
        return left_open(self._connection, self._lock, seconds)
