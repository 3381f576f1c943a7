"""Where the database is, what a connection to it is for whoever comes next, and what its answer to COMMIT means."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import contextmanager
from typing import Any, Iterator, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg.errors import Diagnostic
from psycopg.rows import tuple_row

# A peer that is gone is noticed within about ten seconds. Of the database's nodes, the one that accepts writes.
NODE: dict[str, Any] = {"target_session_attrs": "read-write", "connect_timeout": 5, "tcp_user_timeout": 8000, "keepalives": 1, "keepalives_idle": 5,
                        "keepalives_interval": 2, "keepalives_count": 3}

CONTENTION = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)

Connection = TypeVar("Connection", bound="psycopg.BaseConnection[Any]")


def node(url: str) -> str:
    try:
        given = conninfo.conninfo_to_dict(url)
        # An empty URL would be libpq's default database. A password's own @ or / has made a host, port or database of a piece of it, which an
        # error would name.
        if not url.strip() or re.match("[a-z]+://[^?]*@[^?]*@", url) or re.search("[^0-9,]", str(given.get("port", ""))):
            raise ValueError
    except (psycopg.ProgrammingError, ValueError):  # which may quote the password
        raise ValueError("DATABASE_URL is not the URL of a database, such as postgresql://user:password@host:5432/database: "
                         "a password's %, @, : and / are written %25, %40, %3A, %2F") from None
    # What Skald and strangers say is any text, whatever PGCLIENTENCODING says. No `options`: PgBouncer refuses them.
    return conninfo.make_conninfo(**{**NODE, **given, "client_encoding": "UTF8"})


def is_fit(connection: psycopg.Connection[Any]) -> bool:
    """Closes one to which a step has left another encoding, in which Skald can't read its own texts nor write strangers'."""
    if not connection.closed and connection.pgconn.parameter_status(b"client_encoding") != b"UTF8":
        connection.close()
    return not connection.closed


def restore(connection: Any, cursors: Any) -> None:
    """What a step or a handler sets in the driver is its own: not Skald's, nor the next one's."""
    connection.row_factory, connection.cursor_factory, connection._adapters = tuple_row, cursors, None  # None: the driver's
    connection.server_cursor_factory = psycopg.ServerCursor if cursors is psycopg.Cursor else psycopg.AsyncServerCursor
    connection.prepare_threshold, connection.prepared_max = 5, 100
    for handlers in (connection._notice_handlers, connection._notify_handlers):
        handlers.clear()


class Pooled(psycopg.AsyncConnection[Any]):
    """One of a pool of psycopg_pool's."""

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Any:
        with heeded():
            return await super().connect(*args, **kwargs)


@contextmanager
def heeded() -> Iterator[None]:
    """psycopg_pool's workers swallow the cancellation with which a loop ends, and the loop waits for them: cancel again until they have ended."""
    try:
        yield
    except asyncio.CancelledError:
        worker, loop = asyncio.current_task(), asyncio.get_running_loop()

        def cancel() -> None:
            if worker and not worker.done():
                worker.cancel()
                loop.call_soon(cancel)

        loop.call_soon(cancel)
        raise


class InDoubt(psycopg.OperationalError):
    """The server has committed, and waits for its standbys no longer: a failover may lose it."""


@contextmanager
def watched(connection: Connection) -> Iterator[Connection]:
    """Around what commits. Raises InDoubt."""
    warnings: list[str | None] = []

    def keep(said: Diagnostic) -> None:
        if said.sqlstate == "01000" and said.source_function != "exec_stmt_raise":  # a RAISE is a deferred trigger's
            warnings.append(said.message_primary)

    connection.add_notice_handler(keep)
    try:
        yield connection
    finally:
        connection.remove_notice_handler(keep)
    if warnings:
        raise InDoubt(f"committed, but possibly not durably: {warnings[0]}")


def cut(connection: psycopg.BaseConnection[Any]) -> None:
    """Whoever waits for its answer has lost it. To cancel COMMIT would have it done without the standby for which it waits."""
    with socket.socket(fileno=os.dup(connection.fileno())) as it:
        it.shutdown(socket.SHUT_RDWR)


async def commit(connection: psycopg.AsyncConnection[Any], seconds: float) -> str | None:
    """What the server has answered: psycopg takes ROLLBACK for success. Another transaction is open then."""
    timer = asyncio.get_running_loop().call_later(seconds, cut, connection)
    try:
        with watched(connection):
            return (await connection.execute("COMMIT AND CHAIN", prepare=False)).statusmessage
    finally:
        timer.cancel()
