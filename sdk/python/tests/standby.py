"""A synchronous standby that never answers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, TypeVar

import psycopg

Made = TypeVar("Made")


class AbsentStandby:
    """While it is there, COMMITs wait for it."""

    def __init__(self, url: str) -> None:
        self.url, self.seen = url, 0
        self.c = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self.c.execute("SELECT pg_advisory_lock(hashtextextended('skald.test.synchronous_standby_names', 0))")  # it is the whole server's

    def __enter__(self) -> AbsentStandby:
        self._set("SET synchronous_standby_names = 'nobody'")
        with psycopg.connect(self.url, autocommit=True) as other:
            while not self.seen:  # the server's checkpointer has yet to read the setting
                self.cancelled(lambda: other.execute("SELECT pg_logical_emit_message(true, 'test', '')"))
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
        self.c.close()

    def end(self) -> None:
        self._set("RESET synchronous_standby_names")

    def _set(self, change: str) -> None:
        self.c.execute(f"ALTER SYSTEM {change}")
        self.c.execute("SELECT pg_reload_conf()")

    def cancel(self) -> int:
        """Has COMMITs that wait do so no longer, as an operator may; how many there were."""
        rows = self.c.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = %s AND wait_event = 'SyncRep'",
                              (self.url.rsplit("/", 1)[1],)).fetchall()
        self.seen += len(rows)
        return len(rows)

    def cancelled(self, work: Callable[[], Made]) -> Made:
        """What comes of it if no COMMIT may wait."""
        with ThreadPoolExecutor(1) as thread:
            made = thread.submit(work)
            while not made.done():
                self.cancel()
            return made.result()
