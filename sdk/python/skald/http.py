"""Requests that are sent twice and take effect once, for FastAPI: docs/http-languages.md. A handler runs in the transaction that has
claimed its Idempotency-Key; its response is stored with what it has written, and is given to whoever sends the same request again."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
from typing import Any, Awaitable, Callable

import psycopg
from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from . import IDLE_MAX
from ._database import CONTENTION, InDoubt, Pooled, commit, heeded, node, restore
from ._http_request import RequestContext, context, watch
from ._http_response import App, Receive, Response, Run, Scope, Send, TooSlow, problem, wait_preference
from ._left import LEFT_MAX, UNDONE, LeftOpen, left_open_async

__all__ = ["Guard", "RequestContext", "context", "guard"]

TRIES_MAX, WAIT_MAX, COMMIT_MAX = 3, 30, 45
PASSING = {401, 403, 408, 409, 425, 429}  # a retry may get another response


class _Again(Exception):
    """The transaction was rolled back through no fault of the request."""


class Guard:
    """`guarded`: which requests need a key; `scope`: whose request it is (docs/http.md), '' if there is no function; `handler_seconds`: how long a
    handler may take; `body_max`: the largest body."""

    def __init__(self, database_url: str | None = None, connections: int = 8, scope: Callable[[Request], str | Awaitable[str]] | None = None,
                 guarded: Callable[[Request], bool] = lambda r: r.method not in ("GET", "HEAD", "OPTIONS"),
                 handler_seconds: float = 30, body_max: int = 262144) -> None:
        self.scope, self.guarded, self.handler_seconds, self.body_max, self._used = scope, guarded, handler_seconds, body_max, 0
        self._silence = f"{int(max(IDLE_MAX, handler_seconds + 5) * 1000)}ms"  # a handler may be silent as long as it may take
        self._where = node(os.environ.get("DATABASE_URL", "") if database_url is None else database_url)
        self._connections, self._pools = connections, dict[asyncio.AbstractEventLoop, AsyncConnectionPool]()

    def _pool_of(self, loop: asyncio.AbstractEventLoop) -> AsyncConnectionPool:
        """A pool is one event loop's, and Starlette's TestClient has another for each request."""
        for ended in [other for other in list(self._pools) if other.is_closed()]:
            for connection in self._pools.pop(ended)._pool:
                connection.pgconn.finish()
        if loop not in self._pools:
            # A lost connection is tried for, less and less often, until it is given up: then the next request has a new one made.
            self._pools[loop] = AsyncConnectionPool(
                self._where, connection_class=Pooled, kwargs={"autocommit": True}, configure=self._configure, reset=self._reset,
                min_size=0, max_size=self._connections, timeout=10, reconnect_timeout=5, open=False)
        return self._pools[loop]

    @staticmethod
    async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        await connection.set_read_only(False)
        await Guard._reset(connection)

    @staticmethod
    async def _reset(connection: psycopg.AsyncConnection[Any]) -> None:
        # What a handler has left in its session (docs/session.md). What follows a COMMIT or ROLLBACK of its own must write nothing.
        restore(connection, psycopg.AsyncCursor)
        with heeded():
            await connection.execute("RESET ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; CLOSE ALL; UNLISTEN *; DISCARD TEMP; "
                                     "SELECT pg_advisory_unlock_all(); SET default_transaction_read_only = on", prepare=False)

    async def close(self) -> None:
        """Closes its connections, when the application ends."""
        await self._pool_of(asyncio.get_running_loop()).close()

    async def serve(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.guarded(Request(scope)):
            await app(scope, receive, send)
            return
        if "skald" in scope.get("state", {}):  # the other one has claimed the key: it would be in flight for ever
            raise RuntimeError("the request is guarded already: have one guard() on a request's way, and leave to another by `guarded` what that one has")
        request = Request(scope, receive)
        try:
            whose = await self._whose(request)
            keys = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"idempotency-key"]
            body = await self._read(request) if keys else b""  # without a key it is refused
        except HTTPException as error:
            await (await http_exception_handler(request, error))(scope, receive, send)
            return
        except ClientDisconnect:
            return
        if body is None:
            await problem(None, 413, "Content Too Large", "the body is larger than this server takes").send(send)
            return
        wait = wait_preference(scope["headers"])
        until = asyncio.get_running_loop().time() + min(wait or 0, WAIT_MAX)
        pause, waited = 0.05, False
        while True:
            made, run = await self._respond(app, scope, whose, keys, body)
            if made is None or made.problem != "in-flight":
                break
            waited = wait is not None
            if asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2)
        if made is not None and waited:
            made.headers.append(["Preference-Applied", f"wait={min(wait or 0, WAIT_MAX)}"])
        try:
            if made is not None:
                await made.send(send)
        finally:
            if run is not None:
                await run.finish()

    async def _whose(self, request: Request) -> str:
        whose = self.scope(request) if self.scope else ""
        if inspect.isawaitable(whose):
            whose = await whose
        if not isinstance(whose, str) or "\0" in whose:
            raise TypeError(f"`scope` returns whose request it is as a str without NUL, or raises HTTPException(401): it returned {whose!r}")
        return whose

    async def _read(self, request: Request) -> bytes | None:
        chunks, size = [], 0
        async for chunk in request.stream():
            chunks.append(chunk)
            size += len(chunk)
            if size > self.body_max:
                return None
        return b"".join(chunks)

    async def _respond(self, app: App, scope: Scope, whose: str, keys: list[str], body: bytes) -> tuple[Response | None, Run | None]:
        """The response, or None where the application raised; and the application, which is to go on behind it."""
        doubt = lost = busy = False
        pool = self._pool_of(asyncio.get_running_loop())
        await pool.open()
        for _ in range(TRIES_MAX):
            committing: list[bool] = []
            try:
                async with pool.connection() as connection:
                    self._used += 1
                    try:
                        return await self._run(connection, app, scope, whose, keys, body, committing, doubt)
                    except Exception as error:
                        lost = connection.closed and not isinstance(error, LeftOpen)
                        doubt = doubt or isinstance(error, InDoubt) or (lost and bool(committing))
                        if not lost and not isinstance(error, (_Again, InDoubt, *CONTENTION)):
                            raise
                    finally:
                        self._used -= 1
                if lost:
                    await pool.check()  # what has ended this session, a restart perhaps, may have ended the idle ones
                else:
                    await asyncio.sleep(random.uniform(0, 0.05))
            except PoolTimeout:
                lost, busy = True, self._used >= pool.max_size
                break
        if doubt:
            return problem("outcome-unknown", 503, "It is not known whether the request took effect",
                            "it is not known whether the request took effect; send it again with the same key to learn it"), None
        if busy:
            return problem(None, 503, "Service Unavailable", "other requests have all connections; nothing was done, send the request again"), None
        if lost:
            return problem("unavailable", 503, "The database is away", "the database is away; send the request again with the same key"), None
        return problem(None, 503, "Service Unavailable", "others had the same rows each time; nothing was done, send the request again"), None

    async def _run(self, connection: psycopg.AsyncConnection[Any], app: App, scope: Scope, whose: str, keys: list[str], body: bytes,
                   committing: list[bool], doubt: bool) -> tuple[Response | None, Run | None]:
        query = scope["query_string"]
        target = scope.get("raw_path", scope["path"].encode()) + (b"?" + query if query else b"")
        run: Run | None = None
        try:
            async with connection.transaction():
                cursor = await connection.execute(
                    "SELECT set_config('default_transaction_read_only', NULL, true), set_config('idle_in_transaction_session_timeout', %s, true),"
                    "       verdict, key, taken::text, problem, status_code, content_type, headers, response"
                    "  FROM skald.take_request(%s, %s, %s, %s, %s)", (self._silence, whose, keys, scope["method"], target, body))
                [(fenced, _, verdict, key, taken, name, status, content_type, headers, stored)] = await cursor.fetchall()
                # An operator has made the database read-only. Our own READ WRITE would override that.
                if fenced == "on":
                    await connection.close()
                    raise errors.ReadOnlySqlTransaction("the database has become read-only")
                if verdict != "run":
                    if name == "in-flight" and doubt:
                        raise _Again("the transaction in doubt may still be open")
                    await commit(connection, COMMIT_MAX)
                    return Response(status, content_type, headers, bytes(stored), name), None
                ctx = RequestContext(connection, whose, key, taken)
                run = Run(app, {**scope, "state": {**scope.get("state", {}), "skald": ctx}}, body)
                made = await self._made(run, ctx)
                restore(connection, psycopg.AsyncCursor)
                if made is None or not _is_outcome(made, ctx):
                    if made is not None and made.status < 400 and ctx._raised is not None and not ctx._is_handled:
                        broke = RuntimeError(f"the handler raised, and what came of that is no error but a {made.status}, of which nothing remains: "
                                             "it had begun to respond, or middleware has answered")
                        raise LeftOpen(ctx._left) if ctx._left else broke from ctx._raised
                    if ctx._left:
                        return made, run
                    if connection.info.transaction_status is not TransactionStatus.INERROR:
                        await connection.execute("SELECT skald.assert_requested(%s)", (taken,))
                    raise psycopg.Rollback
                if ctx._left:
                    raise LeftOpen(ctx._left)
                if ctx._unawaited:
                    raise RuntimeError("a statement of the handler was never awaited, and not executed: `await ctx.sql(...)`, in an `async def`")
                if connection.info.transaction_status is TransactionStatus.INERROR:
                    last = "; the last error of `ctx.sql`, if no savepoint has undone it, is the cause" if ctx._ended_by else ""
                    raise RuntimeError(UNDONE + last) from ctx._ended_by
                await connection.execute("SELECT skald.respond(%s, %s, %s, %s, %s)",
                                         (taken, made.status, made.content_type, json.dumps(made.headers), made.body))
                committing.append(True)
                if await commit(connection, COMMIT_MAX) != "COMMIT":
                    raise RuntimeError("the transaction was rolled back: a statement of the handler was not awaited, and failed")
                raise psycopg.Rollback  # of what a task has written behind it
        except errors.InvalidTransactionTermination:
            assert run is not None
            await run.cancel()
            return problem(None, 500, "Internal Server Error", "the service ended its own transaction; part of the request may have taken effect"), None
        except TooSlow:
            return problem(None, 503, "Service Unavailable", "the request took too long; nothing was done, send it again"), None
        except BaseException:
            if run is not None:
                await run.cancel()
            raise
        return made, run

    async def _made(self, run: Run, ctx: RequestContext) -> Response | None:
        """None: the application raised what it does not handle."""
        made = None
        try:
            made = await run.response(self.handler_seconds)
        except TooSlow:
            await run.cancel()  # a statement may be under way, and ROLLBACK would wait for it
            raise
        except Exception as error:
            ctx._raised = error
        finally:
            ctx._has_ended = True
            ctx._left = await left_open_async(ctx._connection, LEFT_MAX if made is not None and ctx._raised is None else 0)
        is_over = ctx._connection.info.transaction_status is TransactionStatus.INERROR
        for met in (ctx._raised, ctx._ended_by if is_over else None):
            if isinstance(met, CONTENTION) and (is_over or met is ctx._met):
                raise _Again from met
        return made


def _is_outcome(made: Response, ctx: RequestContext) -> bool:
    # What is answered before the handler has `ctx`, or behind an exception, is not the handler's decision.
    is_refusal = made.status >= 400 and not ctx._is_used
    is_elsewhere = made.status in (307, 308)  # the same request, with the same key, to another target
    return made.status < 500 and ctx._raised is None and not is_refusal and not is_elsewhere and (made.status not in PASSING or ctx.is_final)


class _Middleware:
    """ASGI middleware, which the application makes when it starts."""

    def __init__(self, app: App, by: Guard) -> None:
        self.app, self.by = app, by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.by.serve(self.app, scope, receive, send)


def guard(app: FastAPI, **settings: Any) -> Guard:
    """Guards the application's requests. Data that does not fit the handler is not stored; it is a 400, or what the application's own handler of
    RequestValidationError makes of it. `settings` are Guard's."""
    made, build = Guard(**settings), app.build_middleware_stack

    def watched() -> App:  # at the first request: then the handlers are known
        watch(app)
        return build()

    app.build_middleware_stack = watched  # type: ignore[method-assign]
    app.add_middleware(_Middleware, by=made)
    return made
