"""What a handler's session has: by its address, by the driver, by the handler before."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from application import ORDER, Order, Shop, shop, url  # noqa: F401
from fastapi import Response
from fastapi.responses import JSONResponse
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from skald.http import RequestContext


def test_the_options_of_the_url_hold_and_the_guards_limits_beside_them(url: str) -> None:  # noqa: F811
    async def looks(ctx: RequestContext, order: Order) -> Response:
        cursor = await ctx.sql("SELECT current_setting('search_path'), current_setting('lock_timeout')")
        seen.append(await cursor.fetchone())
        return await shop.note(ctx, order)

    seen: list[Any] = []
    shop = Shop(url, database_url=f"{url}?options=-c%20search_path%3Dpublic,nowhere%20-c%20lock_timeout%3D1")
    shop.act = looks
    assert [r.status_code for key in "ab" for r in shop.send((key, ORDER, {}))] == [201, 201]
    assert seen == [("public,nowhere", "5s")] * 2
    shop.close()


def test_a_guard_asks_for_no_settings_when_it_connects(shop: Shop) -> None:  # a pooler refuses them
    settings = "SELECT name, reset_val FROM pg_settings WHERE name <> 'client_encoding' ORDER BY name"

    async def looks(ctx: RequestContext, order: Order) -> Response:
        seen.extend(await (await ctx.sql(settings)).fetchall())
        return await shop.note(ctx, order)

    seen: list[Any] = []
    shop.act = looks
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    assert seen == shop.c.execute(settings).fetchall()


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
def test_the_rows_that_a_handler_has_asked_for_are_its_own(shop: Shop) -> None:
    async def rows(ctx: RequestContext, order: Order) -> Response:
        ctx.connection.row_factory = dict_row
        return await shop.note(ctx, order)

    shop.act = rows
    assert [r.status_code for key in "ab" for r in shop.send((key, ORDER, {}))] == [201, 201]


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
def test_what_a_handler_sets_in_the_driver_is_its_own(shop: Shop) -> None:
    async def sets(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        ctx.connection.cursor_factory, ctx.connection.server_cursor_factory = psycopg.AsyncRawCursor, psycopg.AsyncRawServerCursor
        ctx.connection.adapters.register_loader("jsonb", TextLoader)
        ctx.connection.adapters.register_loader("int4", TextLoader)
        ctx.connection.prepare_threshold = None
        ctx.connection.add_notice_handler(heard.append)
        return Response(status_code=status, headers={"X-A": "b"})

    async def reads(ctx: RequestContext, order: Order) -> Response:
        assert (ctx.connection.server_cursor_factory, ctx.connection.prepare_threshold) == (psycopg.AsyncServerCursor, 5)
        await ctx.sql("DO $$ BEGIN RAISE NOTICE 'x'; END $$")
        return JSONResponse(await (await ctx.sql("SELECT 1, '{}'::jsonb")).fetchone())

    heard: list[Any] = []
    for status, replayed in ((201, "true"), (409, None)):
        shop.act = sets
        assert [(r.status_code, r.headers.get("idempotency-replayed"), r.headers["x-a"]) for _ in range(2)
                for r in shop.send((f"a{status}", ORDER, {}))] == [(status, None, "b"), (status, replayed, "b")]
        shop.act = reads
        assert [r.json() for r in shop.send((f"b{status}", ORDER, {}))] == [[1, {}]]
    assert (shop.notes(), heard) == (1, [])


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
def test_a_session_is_set_right(shop: Shop) -> None:
    async def leaves(ctx: RequestContext, order: Order) -> Response:
        for statement in ("CREATE TEMP TABLE note (text text)", "SET app.tenant = 'a'", "SET ROLE pg_monitor", "SELECT pg_advisory_lock(7)", "LISTEN x",
                          "SET lock_timeout = 1", "SET search_path = nowhere", "RESET ROLE" if is_stored else "SELECT 1/0"):
            await ctx.sql(statement)
        return Response(status_code=201)

    async def looks(ctx: RequestContext, order: Order) -> Response:
        cursor = await ctx.sql("SELECT current_setting('app.tenant', true), current_user = session_user, current_setting('lock_timeout'),"
                               " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7), (SELECT count(*) FROM pg_listening_channels())")
        seen.append(await cursor.fetchone())
        return await shop.note(ctx, order)

    seen: list[Any] = []
    for is_stored in (True, False):
        shop.act = leaves
        assert shop.send((f"a{is_stored}", ORDER, {}))[0].status_code == (201 if is_stored else 500)
        shop.act = looks
        assert shop.send((f"b{is_stored}", ORDER, {}))[0].status_code == 201
    assert [(tenant or "", *more) for tenant, *more in seen] == [("", True, "5s", 0, 0)] * 2
    assert shop.notes() == 2
