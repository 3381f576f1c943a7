"""What handlers leave open on their connection, which waits for it otherwise for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from application import ORDER, Order, Shop, shop, url  # noqa: F401
from fastapi import HTTPException, Response

import skald.http
from skald.http import RequestContext


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
@pytest.mark.parametrize("is_copy", [False, True])
def test_what_a_handler_leaves_open_is_rolled_back_and_keeps_nobody(shop: Shop, monkeypatch: pytest.MonkeyPatch, is_copy: bool) -> None:
    left: list[Any] = []
    leave = asyncio.Event()

    async def act(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        cursor = ctx.connection.cursor()
        if is_copy:
            left.append(cursor.copy("COPY note FROM STDIN"))
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
        assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [answered]
    assert (shop.notes(), shop.runs) == (0, 5)
    shop.act = shop.note
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    assert shop.notes() == 1
    left.clear()


def test_a_handler_that_raises_or_responds_amid_a_stream_has_responded(shop: Shop) -> None:
    async def act(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        async for row in ctx.connection.cursor().stream("SELECT generate_series(1, 100000)"):
            if raises:
                raise HTTPException(409)
            return Response(status_code=201)
        raise AssertionError

    shop.act = act
    for raises, answered in ((True, 409), (False, 500)):
        assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [answered]
    assert (shop.notes(), shop.runs) == (0, 2)
