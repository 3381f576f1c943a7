"""Requests that are sent twice and take effect once, for FastAPI and Starlette: docs/http-languages.md. A handler runs in the transaction that has
claimed its Idempotency-Key; its response is stored with what it has written, and is given to whoever sends the same request again."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Awaitable, Callable, Mapping, MutableMapping, Sequence

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.responses import Response

from . import _dump

__all__ = ["Guard", "RequestContext", "context", "guard"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TRIES_MAX, WAIT_MAX = 3, 30
PASSING = {401, 403, 408, 409, 425, 429}  # a retry may get another response
OWN = {b"connection", b"content-length", b"content-type", b"date", b"keep-alive", b"transfer-encoding", b"trailer", b"upgrade"}


@dataclass
class RequestContext:
    """What a handler can use while it runs. It must not be kept."""

    connection: psycopg.AsyncConnection[Any]
    """In Skald's transaction: do not end it."""
    scope: str
    key: str
    taken: str
    is_final: bool = False
    """Stores the response although its status is 401, 403, 408, 409, 425 or 429."""
    is_malformed: bool = field(default=False, repr=False)

    async def sql(self, query: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> psycopg.AsyncCursor[Any]:
        return await self.connection.execute(query, values)

    async def start(self, definition: str, itinerary: str, data: Any, *, version: int = 1, deadline: timedelta | None = None,
                    attributes: Mapping[str, str] | None = None) -> None:
        """Starts a saga under the request's key. `itinerary`: "create-order@orders=compensatable arrange-shipping@shipping=pivot"."""
        await self.sql("SELECT skald.start_requested(%s, %s, %s, %s, %s, %s, %s)",
                       (self.taken, definition, itinerary, _dump(data), version, deadline, json.dumps(attributes) if attributes else None))


@dataclass
class _Response:
    status: int
    content_type: str
    headers: list[list[str]]
    body: bytes
    problem: str | None = None

    async def send(self, send: Send) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        if self.content_type:
            headers.append((b"content-type", self.content_type.encode("latin-1")))
        if self.status not in (204, 304):
            headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def _problem(name: str | None, status: int, title: str, detail: str) -> _Response:
    body = _dump({"type": f"/problems/{name}" if name else "about:blank", "title": title, "status": status, "detail": detail})
    return _Response(status, "application/problem+json", [["Retry-After", "1"]] if status == 503 else [], body, name)


class Guard:
    """`guarded`: which requests need a key; `scope`: whose request it is (docs/http.md), '' if there is no function."""

    def __init__(self, database_url: str | None = None, connections: int = 8, scope: Callable[[Request], str] | None = None,
                 guarded: Callable[[Request], bool] = lambda r: r.method not in ("GET", "HEAD", "OPTIONS")) -> None:
        self.scope, self.guarded = scope, guarded
        self._pool = AsyncConnectionPool(
            database_url or os.environ["DATABASE_URL"], min_size=0, max_size=connections, timeout=10, open=False, configure=self._configure,
            kwargs={"autocommit": True, "options": "-c lock_timeout=5000 -c statement_timeout=30000 -c idle_in_transaction_session_timeout=30000"})

    @staticmethod
    async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)

    async def close(self) -> None:
        """Closes its connections, when the application ends."""
        await self._pool.close()

    async def serve(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.guarded(Request(scope)):
            await app(scope, receive, send)
            return
        await self._pool.open()
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        wait = _wait_preference(scope["headers"])
        until = asyncio.get_running_loop().time() + min(wait or 0, WAIT_MAX)
        pause = 0.05
        while True:
            made = await self._respond(app, scope, body)
            if made.problem != "in-flight" or asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2)
        if made.problem == "in-flight" and wait is not None:
            made.headers.append(["Preference-Applied", f"wait={min(wait, WAIT_MAX)}"])
        await made.send(send)

    async def _respond(self, app: App, scope: Scope, body: bytes) -> _Response:
        doubt = lost = False
        for _ in range(TRIES_MAX):
            committing: list[bool] = []
            try:
                return await self._run(app, scope, body, committing, doubt)
            except (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable):
                lost = False
                await asyncio.sleep(random.uniform(0, 0.05))
            except (psycopg.OperationalError, PoolTimeout):
                lost = True
                doubt = doubt or bool(committing)
        if doubt:
            return _problem("outcome-unknown", 503, "It is not known whether the request took effect",
                            "it is not known whether the request took effect; send it again with the same key to learn it")
        if lost:
            return _problem("unavailable", 503, "The database is away", "the database is away; send the request again with the same key")
        return _problem(None, 503, "Service Unavailable", "others had the same rows each time; nothing was done, send the request again")

    async def _run(self, app: App, scope: Scope, body: bytes, committing: list[bool], doubt: bool) -> _Response:
        whose = self.scope(Request(scope)) if self.scope else ""
        keys = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"idempotency-key"]
        query = scope["query_string"]
        target = scope.get("raw_path", scope["path"].encode()) + (b"?" + query if query else b"")
        async with self._pool.connection() as connection:
            made: _Response | None = None
            try:
                async with connection.transaction():
                    cursor = await connection.execute(
                        "SELECT verdict, key, taken::text, problem, status_code, content_type, headers, response"
                        "  FROM skald.take_request(%s, %s, %s, %s, %s)", (whose, keys, scope["method"], target, body))
                    row = await cursor.fetchone()
                    assert row is not None
                    verdict, key, taken, problem, status, content_type, headers, stored = row
                    if verdict != "run":
                        if problem == "in-flight" and doubt:
                            raise errors.LockNotAvailable("the transaction in doubt may still be open")
                        return _Response(status, content_type, headers, bytes(stored), problem)
                    ctx = RequestContext(connection, whose, key, taken)
                    made = await self._handle(app, scope, body, ctx)
                    if made.status >= 500 or ctx.is_malformed or (made.status in PASSING and not ctx.is_final):
                        raise psycopg.Rollback
                    await connection.execute("SELECT skald.respond(%s, %s, %s, %s, %s)",
                                             (taken, made.status, made.content_type, json.dumps(made.headers), made.body))
                    committing.append(True)
            except errors.InvalidTransactionTermination:
                return _problem(None, 500, "Internal Server Error", "the service ended its own transaction; part of the request may have taken effect")
            assert made is not None
            return made

    async def _handle(self, app: App, scope: Scope, body: bytes, ctx: RequestContext) -> _Response:
        sent: list[MutableMapping[str, Any]] = []
        bodies = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if bodies:
                return bodies.pop()
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await app({**scope, "state": {**scope.get("state", {}), "skald": ctx}}, receive, send)
        head = next(m for m in sent if m["type"] == "http.response.start")
        types = [value.decode("latin-1") for name, value in head["headers"] if name.lower() == b"content-type"]
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in head["headers"] if name.lower() not in OWN]
        return _Response(head["status"], types[0] if types else "", headers, b"".join(m.get("body", b"") for m in sent))


def _wait_preference(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    for name, value in headers:
        if name.lower() == b"prefer" and (found := re.search(rb'(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)', value, re.IGNORECASE)):
            return int(found[1])
    return None


def context(request: Request) -> RequestContext:
    """For a handler: `ctx: RequestContext = Depends(skald.http.context)`."""
    made: RequestContext = request.state.skald
    return made


class _Middleware:
    """ASGI middleware, which the application makes when it starts."""

    def __init__(self, app: App, by: Guard) -> None:
        self.app, self.by = app, by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.by.serve(self.app, scope, receive, send)


def guard(app: FastAPI, **settings: Any) -> Guard:
    """Guards the application's requests, and makes data that does not fit the handler a 400 that is not stored. `settings` are Guard's."""

    async def refuse(request: Request, error: Exception) -> Response:
        if ctx := getattr(request.state, "skald", None):
            ctx.is_malformed = True
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        made = _problem("body", 400, "The body is not what this resource takes", f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        return Response(made.body, made.status, media_type=made.content_type)

    made = Guard(**settings)
    app.add_exception_handler(RequestValidationError, refuse)
    app.add_middleware(_Middleware, by=made)
    return made
