"""What becomes of a connection on which a step or a handler has left a stream, a COPY, a pipeline or a statement."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from ._database import cut

LEFT_MAX = 5.0  # seconds that a statement may still take for which nobody waits
# How long a thread that still reads may take to see that the socket is closed. finish() frees memory that it reads from.
CUT_MAX = 1.0

STREAM = "a stream, COPY or pipeline was left open, or a long statement not awaited: close it, or await it, before the step or handler ends"
SAVEPOINT = ("a `with connection.transaction()` has not ended: end it before the step or handler ends, and in FastAPI one that a dependency yields "
             'in by Depends(..., scope="function"), before the response')

UNDONE = ("a statement failed, or a stream was left amid its rows, and what followed took no notice, but PostgreSQL has undone it all: put such a "
          "statement into a `with ctx.connection.transaction()` of its own (FastAPI: `async with`), and read a stream to its end")


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
        with suppress(psycopg.Error, OSError):
            cut(connection)
        if connection.lock.acquire(timeout=CUT_MAX):
            connection.lock.release()
        connection.pgconn.finish()
    return left


async def left_open_async(connection: psycopg.AsyncConnection[Any], seconds: float) -> str:
    await _free(connection, seconds)
    left = _left(connection, connection.lock.locked())
    if left:
        try:
            with suppress(psycopg.Error, OSError):
                cut(connection)
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
