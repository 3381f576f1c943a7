"""What becomes of a connection on which a step or a handler has left a stream, a COPY or a statement."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from ._commit import cut

LEFT_MAX = 5.0  # seconds that a statement may still take for which nobody waits


STREAM = "a stream or COPY was left open, or a long statement not waited for: close it, or await it, before the step or handler ends"
SAVEPOINT = ("a `with connection.transaction()` has not ended: end it before the step or handler ends, and in FastAPI one that a dependency yields "
             'in by Depends(..., scope="function"), before the response')


class LeftOpen(RuntimeError):
    pass


def left_open(connection: psycopg.Connection[Any], of_context: Any, seconds: float) -> str:
    """What there is, behind so many seconds: it may keep the connection or its lock for ever, so that connection is given up."""
    held = [lock for lock in (of_context, connection.lock) if lock.acquire(timeout=seconds)]
    left = _left(connection, len(held) < 2)
    for lock in held:
        lock.release()
    if left:
        _end(connection)
        connection.pgconn.finish()
    return left


async def left_open_async(connection: psycopg.AsyncConnection[Any], seconds: float) -> str:
    if seconds and connection.lock.locked():
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(connection.lock.acquire(), seconds)
            connection.lock.release()
    left = _left(connection, connection.lock.locked())
    if left:
        try:
            await asyncio.to_thread(_end, connection)
        finally:
            connection.pgconn.finish()
    return left


def _left(connection: psycopg.BaseConnection[Any], is_locked: bool) -> str:
    if is_locked or connection.info.transaction_status is TransactionStatus.ACTIVE:
        return STREAM
    return "" if connection._num_transactions == 1 or connection.closed else SAVEPOINT  # Skald's own


def _end(connection: psycopg.BaseConnection[Any]) -> None:
    with suppress(psycopg.Error, OSError):
        at_work = connection.pgconn.get_cancel()  # there is none once the connection is noticed to be cut
        cut(connection)
        at_work.cancel()  # else its server may work on, and keep the claim
