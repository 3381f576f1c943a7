"""What keeps a COMMIT from being believed that its server's standbys do not have, and from being waited for without end."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import contextmanager
from typing import Any, Iterator, TypeVar

import psycopg
from psycopg.errors import Diagnostic


Connection = TypeVar("Connection", bound="psycopg.BaseConnection[Any]")


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
