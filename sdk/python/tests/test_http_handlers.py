"""What handlers do wrong, and what the guard makes of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, AsyncIterator

import httpx
import psycopg
import pytest
from application import ORDER, Order, Shop, problem, raised_by, shop, url  # noqa: F401
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg import errors
from starlette.background import BackgroundTask

import skald.http
from skald.http import RequestContext


def test_what_is_raised_leaves_nothing_and_what_is_returned_is_an_outcome(shop: Shop) -> None:
    raised: list[Exception] = [HTTPException(400, "over your limit"), HTTPException(404), KeyError("mapped"), errors.DeadlockDetected("elsewhere")]

    async def raises(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        raise raised.pop(0)

    async def returns(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        return Response("over your limit", 400)

    @shop.app.exception_handler(KeyError)
    @shop.app.exception_handler(psycopg.Error)
    async def mapped(_: Request, error: Exception) -> Response:
        return JSONResponse(str(error), 400)

    shop.act = raises
    assert [shop.send(("k", ORDER, {}))[0].status_code for _ in range(4)] == [400, 404, 400, 400]
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.idempotency"), shop.runs) == (0, 0, 4)
    shop.act = returns
    assert [shop.send(("k", ORDER, {}))[0].headers.get("idempotency-replayed") for _ in range(2)] == [None, "true"]
    assert (shop.notes(), shop.runs) == (1, 5)


def test_what_the_framework_makes_of_an_exception_is_no_outcome_without_a_context_either(shop: Shop) -> None:
    raised: list[Exception] = [HTTPException(302, headers={"Location": "/login"}), KeyError("mapped")]

    @shop.app.exception_handler(KeyError)
    def mapped(_: Request, error: Exception) -> Response:
        return Response("sorry")

    @shop.app.post("/plain")
    async def plain() -> Response:
        if raised:
            raise raised.pop(0)
        return Response(status_code=201)

    assert [r.status_code for r in shop.send(("k", b"", {}), target="/plain/")] == [307]  # and who follows has the same key
    answers = [shop.send(("k", b"", {}), target="/plain")[0] for _ in range(4)]
    assert [(r.status_code, r.headers.get("idempotency-replayed")) for r in answers] == [(302, None), (200, None), (201, None), (201, "true")]


def test_a_statement_that_is_never_awaited_fails_the_request(shop: Shop) -> None:
    forgotten: list[Any] = []

    async def forgets(ctx: RequestContext, order: Order) -> Response:
        forgotten.append(ctx.sql("INSERT INTO note VALUES ('x')"))
        return Response(status_code=201)

    async def forgets_a_saga(ctx: RequestContext, order: Order) -> Response:
        forgotten.append(ctx.start("welcome", "greet@orders=retriable", {}))
        return Response(status_code=201)

    @shop.app.post("/plain")
    def plain(ctx: RequestContext = Depends(skald.http.context)) -> Response:
        forgotten.append(ctx.sql("INSERT INTO note VALUES ('x')"))
        return Response(status_code=201)

    for shop.act, target in ((forgets, "/orders"), (forgets_a_saga, "/orders"), (forgets, "/plain")):
        assert [r.status_code for r in shop.send(("k", ORDER, {}), target=target)] == [500]
        forgotten.pop().close()
    assert shop.one("SELECT count(*) FROM skald.idempotency") == 0


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
def test_a_full_pool_is_not_said_to_be_the_database(shop: Shop) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    busy: list[httpx.Response] = []

    async def slow(ctx: RequestContext, order: Order) -> Response:
        entered.set()
        await leave.wait()
        return await shop.note(ctx, order)

    async def meanwhile() -> None:
        await entered.wait()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(shop.app), base_url="http://shop") as client:
            busy.append(await client.post("/orders", content=ORDER, headers={"Content-Type": "application/json", "Idempotency-Key": "b"}))
        leave.set()

    shop.act = slow
    shop.guard._pool_of(shop.loop).timeout = 0.2
    shop.send(meanwhile, ("a", ORDER, {}))
    assert (problem(busy[0]), "have all connections" in busy[0].text, shop.notes()) == ((503, "about:blank"), True, 1)


def test_a_request_without_a_guard_has_no_context_and_says_why(shop: Shop) -> None:
    @shop.app.get("/plain")
    async def plain(ctx: RequestContext = Depends(skald.http.context)) -> Response:
        return Response()

    assert "GET /plain is not guarded" in str(raised_by(shop, "/plain", "GET"))


def test_a_request_starts_one_saga(shop: Shop) -> None:
    async def starts(ctx: RequestContext, order: Order) -> Response:
        await ctx.start("welcome", "greet@orders=retriable", {})
        await ctx.start("place-order", "greet@orders=retriable", {})
        return Response(status_code=201)

    shop.act = starts
    assert "a request starts one saga" in str(raised_by(shop))
    assert shop.one("SELECT count(*) FROM skald.saga") == 0


def test_an_error_that_a_handler_passes_over_is_named(shop: Shop) -> None:
    async def passes_over(ctx: RequestContext, order: Order) -> Response:
        for statement in ("SELECT 1/0", "SELECT 1"):
            try:
                await ctx.sql(statement)
            except psycopg.Error:
                pass
        return Response(status_code=status)

    async def goes_on(ctx: RequestContext, order: Order) -> Response:
        try:
            async with ctx.connection.transaction():
                await ctx.sql("SELECT 1/0")
        except errors.DivisionByZero:
            return await shop.note(ctx, order)
        return Response()

    shop.act = passes_over
    for status in (200, 404):
        raised = raised_by(shop)
        assert "with ctx.connection.transaction()" in str(raised) and isinstance(raised.__cause__, errors.DivisionByZero)
    async def harmless_before(ctx: RequestContext, order: Order) -> Response:
        connection = ctx.connection
        if has_sql:
            await goes_on(ctx, order)
        else:
            with contextlib.suppress(psycopg.Error):
                async with ctx.connection.transaction():
                    await ctx.sql("SELECT 1/0")
        with contextlib.suppress(psycopg.Error):
            await (connection if is_kept else ctx.connection).execute("SELECT 'a'::int")
        return Response()

    shop.act = harmless_before
    for has_sql, is_kept in ((True, False), (False, False), (False, True)):
        raised = raised_by(shop)
        assert (raised.__cause__ is not None, "if no savepoint has undone it" in str(raised)) == (is_kept, is_kept)
    shop.act = goes_on
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    assert shop.notes() == 1


def test_a_handler_runs_again_for_what_its_own_transaction_met_only(shop: Shop) -> None:
    raised: Exception | None = None

    async def act(ctx: RequestContext, order: Order) -> Response:
        if raised:
            raise raised
        await ctx.sql("SET LOCAL statement_timeout = 1")
        await ctx.sql("SELECT pg_sleep(10)")
        return await shop.note(ctx, order)

    shop.act = act
    for raised in (psycopg.OperationalError("the other database is away"), errors.SerializationFailure("of another database"), None):
        shop.runs = 0
        assert [(r.status_code, shop.runs) for r in shop.send(("k", ORDER, {}))] == [(500, 1)]


def test_a_context_ends_with_the_response_and_what_runs_in_the_background_comes_after(shop: Shop) -> None:
    seen: list[Any] = []

    async def later(ctx: RequestContext) -> None:
        seen.append(shop.notes())
        with pytest.raises(RuntimeError, match="has been responded to"):
            await ctx.sql("INSERT INTO note VALUES ('late')")

    async def act(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        return Response(status_code=201, background=BackgroundTask(later, ctx))

    shop.act = act
    assert [shop.send(("k", ORDER, {}))[0].status_code for _ in range(2)] == [201, 201]
    assert (seen, shop.notes()) == ([1], 1)


def test_a_transaction_that_the_handler_ends_stores_nothing(shop: Shop) -> None:
    async def act(ctx: RequestContext, order: Order) -> Response:
        for statement in statements:
            try:
                await ctx.sql(statement)
            except errors.ReadOnlySqlTransaction:
                pass
        if refusal:
            raise HTTPException(refusal)
        return Response(status_code=status)

    shop.act = act
    insert = "INSERT INTO note VALUES ('x')"
    for statements in (("ROLLBACK", insert), (insert, "ROLLBACK", "BEGIN", insert, "COMMIT"), ("COMMIT", insert), ("COMMIT", "BEGIN", insert)):
        for status, refusal in ((201, None), (409, None), (201, 400)):
            answer, = shop.send(("k", ORDER, {}))
            assert (answer.status_code, "ended its own transaction" in answer.text) == (500, True)
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.response")) == (0, 0)


def test_a_statement_that_fails_behind_the_response_leaves_nothing(shop: Shop) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def fail_behind(connection: psycopg.AsyncConnection[Any]) -> None:
        with pytest.raises(errors.DivisionByZero):
            while True:
                await connection.execute("SELECT 1 / (SELECT CASE count(*) WHEN 0 THEN 1 ELSE 0 END FROM skald.response)")

    async def act(ctx: RequestContext, order: Order) -> Response:
        tasks.append(asyncio.create_task(fail_behind(ctx.connection)))
        return await shop.note(ctx, order)

    shop.act = act
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [500]
    assert (tasks[0].done(), shop.notes()) == (True, 0)
    shop.act = shop.note
    assert [(r.status_code, r.headers.get("idempotency-replayed")) for r in shop.send(("k", ORDER, {}))] == [(201, None)]


@pytest.mark.parametrize("shop", [{"connections": 1, "handler_seconds": 0.2}], indirect=True)
def test_a_handler_that_never_responds_is_ended(shop: Shop) -> None:
    async def never(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        await (ctx.sql("SELECT pg_sleep(25)") if in_sql else asyncio.Event().wait())
        return Response()

    shop.act = never
    for in_sql in (False, True):
        assert [(r.status_code, r.headers["retry-after"]) for r in shop.send(("k", ORDER, {}))] == [(503, "1")]
    shop.act = shop.note
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    assert shop.notes() == 1


@pytest.mark.parametrize("shop", [{"handler_seconds": 60}], indirect=True)
def test_a_handler_may_be_silent_as_long_as_it_may_take(shop: Shop) -> None:
    async def act(ctx: RequestContext, order: Order) -> Response:
        cursor = await ctx.sql("SELECT current_setting('idle_in_transaction_session_timeout')::interval > interval '60 s'")
        return JSONResponse(await cursor.fetchone(), 201)

    shop.act = act
    assert [r.json() for r in shop.send(("k", ORDER, {}))] == [[True]]


async def who(request: Request) -> Any:
    if "Authorization" not in request.headers:
        raise HTTPException(401, "who are you", {"WWW-Authenticate": "Bearer"})
    return {"none": None, "number": 42, "nul": "a\0b"}.get(request.headers["Authorization"], request.headers["Authorization"])


@pytest.mark.parametrize("shop", [{"scope": who}], indirect=True)
def test_the_scope_is_asked_first(shop: Shop) -> None:
    stranger, = shop.send(("k", ORDER, {}))
    assert (stranger.status_code, stranger.headers["www-authenticate"]) == (401, "Bearer")
    assert [shop.send(("k", ORDER, {"Authorization": whose}))[0].status_code for whose in ("ada", "none", "number", "nul")] == [201, 500, 500, 500]
    assert shop.one("SELECT string_agg(scope, ',') FROM skald.idempotency") == "ada"
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [401]  # a replay is for who is allowed to see it


def test_a_body_is_read_with_a_key_only_and_up_to_a_limit(shop: Shop) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            read.append(1)
            yield b"x" * 65536

    read: list[int] = []
    assert [problem(r) for r in shop.send(("", chunks(), {}))] == [(400, "idempotency-key")]  # type: ignore[arg-type]
    assert read == []
    assert [problem(r) for r in shop.send(("k", chunks(), {}))] == [(413, "about:blank")]  # type: ignore[arg-type]
    assert len(read) == 5


@pytest.mark.parametrize("is_async, is_first", [(True, True), (False, True), (True, False), (False, False)])
def test_what_the_application_makes_of_bad_data_is_sent_and_not_stored(url: str, is_async: bool, is_first: bool) -> None:  # noqa: F811
    def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"errors": 1}, 422)

    async def refuse_later(request: Request, error: Exception) -> Response:
        return refuse(request, error)

    app = FastAPI()
    own = refuse_later if is_async else refuse
    if is_first:
        app.add_exception_handler(RequestValidationError, own)
    shop = Shop(url, app)
    if not is_first:
        app.add_exception_handler(RequestValidationError, own)
    answers = shop.send(("k", b'{"quantity":"many"}', {})) + shop.send(("k", ORDER, {})) + shop.send(("k", ORDER, {}))
    assert [(r.status_code, r.json(), r.headers.get("idempotency-replayed")) for r in answers] == [
        (422, {"errors": 1}, None), (201, {"key": "k"}, None), (201, {"key": "k"}, "true")]
    shop.close()


def test_a_route_that_needs_no_key_refuses_as_fastapi_does(shop: Shop) -> None:
    async def get() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(shop.app), base_url="http://shop") as client:
            assert (await client.get("/floors?floor=x")).status_code == 422

    shop.send(get)
