"""A guarded request, as its handler and the application's handlers of exceptions see it."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, AsyncIterator, Callable, Coroutine, Mapping, MutableMapping, Sequence

import psycopg
from fastapi import Request
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from psycopg import errors
from psycopg.pq import TransactionStatus
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.responses import Response

from ._http_response import App, Receive, Scope, Send, problem
from ._text import dump


@dataclass
class RequestContext:
    """What a handler can use until it has responded."""

    _connection: psycopg.AsyncConnection[Any] = field(repr=False)
    scope: str
    key: str
    taken: str
    is_final: bool = False
    """Stores the response although its status is 401, 403, 408, 409, 425 or 429."""
    _unawaited: int = field(default=0, repr=False)
    _is_used: bool = field(default=False, repr=False)
    _has_ended: bool = field(default=False, repr=False)
    _raised: BaseException | None = field(default=None, repr=False)
    _is_handled: bool = field(default=False, repr=False)  # what was raised, by a handler of exceptions
    _left: str = field(default="", repr=False)
    _met: Exception | None = field(default=None, repr=False)
    _ended_by: Exception | None = field(default=None, repr=False)  # the same, unless a savepoint has undone it

    @property
    def connection(self) -> psycopg.AsyncConnection[Any]:
        """In Skald's transaction: do not end it, and do not keep it."""
        if self._has_ended:
            raise RuntimeError("the request has been responded to: what a handler does with `ctx` comes before its response")
        if self._connection.info.transaction_status is not TransactionStatus.INERROR:
            self._ended_by = None  # a savepoint has undone it
        return self._connection

    def sql(self, query: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> Coroutine[Any, Any, psycopg.AsyncCursor[Any]]:
        """Must be awaited: else nothing was written, and the request fails."""
        self._unawaited += 1
        return self._sql(query, values)

    async def _sql(self, query: str, values: Sequence[Any] | Mapping[str, Any] | None) -> psycopg.AsyncCursor[Any]:
        self._unawaited -= 1
        try:
            made = await self.connection.execute(query, values)
            self._ended_by = None  # where a statement has failed, none but ROLLBACK succeeds
            return made
        except psycopg.Error as error:
            if not isinstance(error, errors.InFailedSqlTransaction):
                self._met = self._ended_by = error
            if error.diag.constraint_name == "saga_once":
                raise type(error)(f"a request starts one saga, and {self.key} has one: start others by the SQL function skald.start") from error
            raise

    def start(self, definition: str, itinerary: str, data: Any, *, version: int = 1, deadline: timedelta | None = None,
              attributes: Mapping[str, str] | None = None) -> Coroutine[Any, Any, object]:
        """Starts a saga under the request's key. `itinerary`: "create-order@orders=compensatable arrange-shipping@shipping=pivot"."""
        return self.sql("SELECT skald.start_requested(%s, %s, %s, %s, %s, %s, %s)",
                        (self.taken, definition, itinerary, dump(data), version, deadline, json.dumps(attributes) if attributes else None))


async def context(request: Request) -> AsyncIterator[RequestContext]:
    """For a handler: `ctx: RequestContext = Depends(skald.http.context)`."""
    made: RequestContext | None = getattr(request.state, "skald", None)
    if made is None:
        raise RuntimeError(f"{request.method} {request.url.path} is not guarded, so it has no `ctx`: guard(app, guarded=...) says which requests are")
    made._is_used = True
    for handlers in request.scope.get("starlette.exception_handlers", ()):
        _watch(handlers)  # of this application, which may be mounted where watch() does not see it
    try:
        yield made
    except BaseException as error:
        made._raised = error
        raise


class Innermost:
    """Middleware, within all other, that sees what the application raises, and that it ends amid its response, as one does whose task was
    cancelled: other may complete a response that has broken off."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ctx: RequestContext | None = scope.get("state", {}).get("skald")
        is_amid = False

        async def seen(message: MutableMapping[str, Any]) -> None:
            nonlocal is_amid
            is_amid = message["type"] != "http.response.body" or message.get("more_body", False)
            await send(message)

        try:
            await self.app(scope, receive, seen)
        except BaseException as error:
            if ctx:
                ctx._raised = error
            raise
        if ctx and is_amid:
            ctx._raised = ctx._raised or RuntimeError("the application ended amid its response: a task that it awaited was cancelled")


def watch(app: Any) -> None:
    """Its handlers of exceptions and its innermost middleware, and those of the applications that are mounted in it."""
    _watch(getattr(app, "exception_handlers", {}))
    if getattr(app, "middleware_stack", app) is None and not any(one.cls is Innermost for one in app.user_middleware):
        app.user_middleware.append(Middleware(Innermost))
    for route in getattr(app, "routes", ()):
        if mounted := getattr(route, "_base_app", None):
            watch(mounted)


def _watch(handlers: dict[Any, Any]) -> None:
    for of, handle in handlers.items():
        if getattr(handle, "func", None) is not _handled:
            handlers[of] = partial(_handled, handle)


async def _handled(handle: Callable[[Request, Any], Any], request: Request, error: Exception) -> Any:
    """What the application makes of an exception is not the handler's decision, whatever status it has."""
    ctx: RequestContext | None = getattr(request.state, "skald", None)
    if ctx is not None:
        ctx._raised = error
        if isinstance(error, RequestValidationError) and handle is request_validation_exception_handler:
            first = error.errors()[0]
            made = problem("body", 400, "The body is not what this resource takes", f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
            return Response(made.body, made.status, media_type=made.content_type)
    response = handle(request, error) if inspect.iscoroutinefunction(handle) else await run_in_threadpool(handle, request, error)
    response = await response if inspect.isawaitable(response) else response
    if ctx is not None:
        ctx._is_handled = True
    return response
