"""What handlers leave open on their connection, which waits for it otherwise for ever."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any, AsyncIterator

import httpx
import psycopg
import pytest
from application import ORDER, Order, Shop, raised_by, shop, url  # noqa: F401
from fastapi import Depends, HTTPException, Response

import skald.http
from skald.http import RequestContext

WAITS = {"Prefer": "wait=20"}  # the server notices a socket that was closed within a second


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
@pytest.mark.parametrize("leaves", ["stream", "copy", "pipeline"])
def test_what_a_handler_leaves_open_is_rolled_back_and_keeps_nobody(shop: Shop, monkeypatch: pytest.MonkeyPatch, leaves: str) -> None:
    left: list[Any] = []
    leave = asyncio.Event()

    async def act(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        cursor = ctx.connection.cursor()
        if leaves == "copy":
            left.append(cursor.copy("COPY note FROM STDIN"))
            await left[-1].__aenter__()
        elif leaves == "pipeline":
            left.append(ctx.connection.pipeline())
            await left[-1].__aenter__()
        else:
            left.append(cursor.stream("SELECT generate_series(1, 100000)"))
            await anext(left[-1])
        if raised:
            raise raised
        if not status:
            await leave.wait()
        return Response(status_code=status)

    monkeypatch.setattr(skald.http, "LEFT_MAX", 0.1)
    shop.act = act
    raised: Exception | None
    for raised, status, answered in ((HTTPException(404), 201, 404), (KeyError("broke"), 201, 500), (None, 201, 500), (None, 409, 409), (None, 0, 503)):
        shop.guard.handler_seconds = 30 if status else 0.3
        assert [r.status_code for r in shop.send(("k", ORDER, WAITS))] == [answered]
    assert (shop.notes(), shop.runs) == (0, 5)
    shop.act = shop.note
    assert [r.status_code for r in shop.send(("k", ORDER, WAITS))] == [201]
    assert shop.notes() == 1
    left.clear()


def test_a_handler_that_raises_or_responds_amid_a_stream_has_responded(shop: Shop) -> None:
    async def act(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        # So many that the server has not sent them all when the stream is left.
        async for row in ctx.connection.cursor().stream("SELECT generate_series(1, 100000000)"):
            if raises:
                raise HTTPException(409)
            return Response(status_code=201)
        raise AssertionError

    shop.act = act
    for raises, answered in ((True, 409), (False, 500)):
        assert [r.status_code for r in shop.send(("k", ORDER, WAITS))] == [answered]
    assert (shop.notes(), shop.runs) == (0, 2)


# In older versions of FastAPI a dependency ends before the response.
ends_late = pytest.mark.skipif("scope" not in inspect.signature(Depends).parameters, reason="needs FastAPI 0.121")


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
@pytest.mark.parametrize("leaves", [pytest.param("dependency", marks=ends_late), "task", "transaction"])
def test_a_savepoint_that_is_open_when_the_handler_responds_stores_nothing(shop: Shop, leaves: str) -> None:
    left: list[Any] = []

    async def savepoint(ctx: RequestContext = Depends(skald.http.context)) -> AsyncIterator[RequestContext]:
        async with ctx.connection.transaction():
            yield ctx

    async def suspended(ctx: RequestContext, entered: asyncio.Event) -> None:
        async with ctx.connection.transaction():
            entered.set()
            await asyncio.Event().wait()

    async def act(ctx: RequestContext) -> Response:
        await ctx.sql("INSERT INTO note VALUES ('x')")
        if leaves == "task":
            entered = asyncio.Event()
            left.append(asyncio.create_task(suspended(ctx, entered)))
            await entered.wait()
        elif leaves == "transaction":
            left.append(ctx.connection.transaction())
            await left[-1].__aenter__()
        if refusal:
            raise HTTPException(refusal)
        return Response(status_code=status)

    @shop.app.post("/left")
    async def leave(ctx: RequestContext = Depends(savepoint if leaves == "dependency" else skald.http.context)) -> Response:
        return await act(ctx)

    for refusal, status, answered in ((None, 201, 500), (None, 409, 409), (404, 201, 404), (None, 201, 500)):
        assert [r.status_code for r in shop.send(("k", ORDER, WAITS), target="/left")] == [answered]
    assert "end it before the step or handler ends" in str(raised_by(shop, "/left"))
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.idempotency")) == (0, 0)
    assert [r.status_code for r in shop.send(("k", ORDER, WAITS))] == [201]


@ends_late
def test_a_savepoint_of_a_dependency_that_ends_before_the_response_is_none(shop: Shop) -> None:
    async def savepoint(ctx: RequestContext = Depends(skald.http.context)) -> AsyncIterator[RequestContext]:
        async with ctx.connection.transaction():
            yield ctx

    @shop.app.post("/ends")
    async def ends(ctx: RequestContext = Depends(savepoint, scope="function")) -> Response:
        await ctx.sql("INSERT INTO note VALUES ('x')")
        return Response(status_code=201)

    assert [r.status_code for r in shop.send(("k", ORDER, {}), ("k", ORDER, {"Prefer": "wait=20"}), target="/ends")] == [201, 201]
    assert shop.notes() == 1


def test_the_statement_of_a_request_that_is_cancelled_ends(shop: Shop) -> None:
    at_work = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(1000)' AND state = 'active'"

    async def act(ctx: RequestContext, order: Order) -> Response:
        await ctx.sql("SET LOCAL statement_timeout = 0")
        await ctx.sql("SELECT pg_sleep(1000)")
        raise AssertionError

    async def cancelled() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(shop.app), base_url="http://shop") as client:
            asking = asyncio.create_task(client.post("/orders", content=ORDER, headers={"Content-Type": "application/json", "Idempotency-Key": "k"}))
            while not shop.one(at_work):
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    shop.act = act
    shop.send(cancelled)
    until = time.monotonic() + 30
    while shop.one(at_work):
        assert time.monotonic() < until


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
def test_a_statement_that_no_cancel_ends_keeps_nobody(shop: Shop) -> None:
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    left: list[Any] = []

    async def act(ctx: RequestContext, order: Order) -> Response:
        await ctx.sql("SET LOCAL statement_timeout = 0")
        left.append(asyncio.create_task(ctx.connection.execute(
            "DO $$ BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(1000); END $$")))
        while not shop.one(sleeps):
            await asyncio.sleep(0)
        raise HTTPException(404)

    shop.act = act
    assert [r.status_code for r in shop.send(("k", ORDER, WAITS))] == [404]
    shop.act = shop.note
    assert [r.status_code for r in shop.send(("k", ORDER, WAITS))] == [201]
    assert isinstance(left[0].exception(), psycopg.OperationalError)
