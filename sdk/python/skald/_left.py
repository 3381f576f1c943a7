"""What becomes of a connection on which a step or a handler has left a stream, a COPY or a statement."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from ._commit import cut

LEFT_MAX = 5.0  # seconds that a statement may still take for which nobody waits


class LeftOpen(RuntimeError):
    def __init__(self) -> None:
        super().__init__("a stream or COPY was left open, or a long statement not waited for: close it, or await it, before the step or handler ends")


def left_open(connection: psycopg.Connection[Any], of_context: Any, seconds: float) -> bool:
    """Whether there is one, behind so many seconds: it may keep the connection or its lock for ever, so that connection is given up."""
    held = [lock for lock in (of_context, connection.lock) if lock.acquire(timeout=seconds)]
    is_open = len(held) < 2 or _is_active(connection)
    for lock in held:
        lock.release()
    if is_open:
        _end(connection)
        connection.pgconn.finish()
    return is_open


async def left_open_async(connection: psycopg.AsyncConnection[Any], seconds: float) -> bool:
    if seconds and connection.lock.locked():
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(connection.lock.acquire(), seconds)
            connection.lock.release()
    is_open = connection.lock.locked() or _is_active(connection)
    if is_open:
        try:
            await asyncio.to_thread(_end, connection)
        finally:
            connection.pgconn.finish()
    return is_open


def _is_active(connection: psycopg.BaseConnection[Any]) -> bool:
    return connection.info.transaction_status is TransactionStatus.ACTIVE


def _end(connection: psycopg.BaseConnection[Any]) -> None:
    with suppress(psycopg.Error, OSError):
        cut(connection)
        connection.cancel()  # else its server may work on, and keep the claim
