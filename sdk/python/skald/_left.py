"""What becomes of a connection on which a step or a handler has left a stream, a COPY, a pipeline or a statement."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Callable

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from ._commit import cut

LEFT_MAX = 5.0  # seconds that a statement may still take for which nobody waits
CUT_MAX = 1.0  # that who waits for its answer may take to notice that it is cut: psycopg reads on in memory that finish() frees


STREAM = "a stream, COPY or pipeline was left open, or a long statement not waited for: close it, or await it, before the step or handler ends"
SAVEPOINT = ("a `with connection.transaction()` has not ended: end it before the step or handler ends, and in FastAPI one that a dependency yields "
             'in by Depends(..., scope="function"), before the response')


class LeftOpen(RuntimeError):
    pass


def left_open(connection: psycopg.Connection[Any], of_context: Any, seconds: float) -> str:
    """What there is, behind so many seconds: it may keep the connection or its lock for ever, so that connection is given up."""
    until = time.monotonic() + seconds
    held = [lock for lock in (of_context, connection.lock) if lock.acquire(timeout=max(0, until - time.monotonic()))]
    left = _left(connection, len(held) < 2)
    for lock in held:
        lock.release()
    if left:
        _ending(connection)()
        if connection.lock.acquire(timeout=CUT_MAX):
            connection.lock.release()
        connection.pgconn.finish()
    return left


async def left_open_async(connection: psycopg.AsyncConnection[Any], seconds: float) -> str:
    await _free(connection, seconds)
    left = _left(connection, connection.lock.locked())
    if left:
        try:
            await asyncio.to_thread(_ending(connection))
            await _free(connection, CUT_MAX)
        finally:
            connection.pgconn.finish()
    return left


async def _free(connection: psycopg.AsyncConnection[Any], seconds: float) -> None:
    if seconds and connection.lock.locked():
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(connection.lock.acquire(), seconds)
            connection.lock.release()


def _left(connection: psycopg.BaseConnection[Any], is_locked: bool) -> str:
    if is_locked or connection.info.transaction_status is TransactionStatus.ACTIVE or connection.info.pipeline_status is not PipelineStatus.OFF:
        return STREAM
    return "" if connection._num_transactions == 1 or connection.closed else SAVEPOINT  # Skald's own


def _ending(connection: psycopg.BaseConnection[Any]) -> Callable[[], None]:
    """What ends its server's process, which may work on else, and keep the claim. It waits for that."""
    pgconn = connection.pgconn
    try:  # now: there is none of it once the connection is noticed to be cut
        pid, at_work = pgconn.backend_pid, pgconn.get_cancel()
        where = {option.keyword.decode(): option.val.decode() for option in pgconn.info if option.val}
        where.update(host=pgconn.host.decode(), hostaddr=pgconn.hostaddr.decode(), port=pgconn.port.decode(), target_session_attrs="any")
    except psycopg.Error:
        return lambda: None

    def end() -> None:
        with suppress(psycopg.Error, OSError):
            cut(connection)
        with suppress(psycopg.Error, OSError):
            at_work.cancel()  # for a pooler, whose processes have other numbers; it is dropped if it is there before the statement
        with suppress(psycopg.Error, OSError), psycopg.connect(**where, autocommit=True) as other:  # type: ignore[arg-type]
            other.execute("SET statement_timeout = 5000")
            other.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND datname = current_database()"
                          " AND usename = session_user", (pid,))

    return end
