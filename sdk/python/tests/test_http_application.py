"""What is around a handler in its application: middleware within the guard, and applications that are mounted."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Callable, Iterator

import pytest
from application import ORDER, Order, Shop, problem, raised_by, url  # noqa: F401
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

import skald.http
from skald.http import RequestContext


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:  # noqa: F811
    app = FastAPI()

    @app.middleware("http")
    async def passes(request: Request, call_next: Callable[[Request], Any]) -> Any:
        return await call_next(request)

    made = Shop(url, app)
    yield made
    made.close()


@pytest.mark.parametrize("is_amid_rows", [False, True])
def test_a_stream_that_breaks_off_is_not_sent_as_if_it_were_whole(shop: Shop, is_amid_rows: bool) -> None:
    async def act(ctx: RequestContext, order: Order) -> Response:
        async def paid() -> AsyncIterator[str]:
            await shop.note(ctx, order)
            yield '{"paid":1}'
            if breaks and is_amid_rows:
                async for row in ctx.connection.cursor().stream("SELECT generate_series(1, 100000)"):
                    raise KeyError(row)
            if breaks:
                raise KeyError("broke")

        return StreamingResponse(paid(), 201)

    shop.act, breaks = act, True
    assert [r.status_code for _ in range(2) for r in shop.send(("k", ORDER, {}))] == [500, 500]
    raised = raised_by(shop)
    assert isinstance(raised.__cause__ or raised, KeyError)  # older versions of Starlette raise it themselves
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.idempotency")) == (0, 0)
    breaks = False
    assert [(r.status_code, r.text, r.headers.get("idempotency-replayed")) for _ in range(2) for r in shop.send(("k", ORDER, {}))] == [
        (201, '{"paid":1}', None), (201, '{"paid":1}', "true")]


def test_a_stream_of_a_handler_without_ctx_that_breaks_off_is_not_stored(shop: Shop) -> None:
    @shop.app.post("/plain")
    async def plain() -> Response:
        async def half() -> AsyncIterator[str]:
            yield "half"
            raise KeyError("broke")

        return StreamingResponse(half())

    assert [r.status_code for _ in range(2) for r in shop.send(("k", ORDER, {}), target="/plain")] == [500, 500]
    assert shop.one("SELECT count(*) FROM skald.idempotency") == 0


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])  # by which Starlette streams in tasks, or not
@pytest.mark.parametrize("is_mounted, has_ctx", [(False, True), (False, False), (True, True)])
def test_a_stream_that_ends_by_the_cancellation_of_what_it_awaits_is_not_stored(
        shop: Shop, spec_version: str, is_mounted: bool, has_ctx: bool) -> None:
    app = FastAPI() if is_mounted else shop.app
    if is_mounted:
        shop.app.mount("/sub", app)

        @app.middleware("http")
        async def passes(request: Request, call_next: Callable[[Request], Any]) -> Any:
            return await call_next(request)

    @shop.app.middleware("http")
    async def of_version(request: Request, call_next: Callable[[Request], Any]) -> Any:
        request.scope["asgi"] = {"version": "3.0", "spec_version": spec_version}
        return await call_next(request)

    async def half() -> AsyncIterator[str]:
        yield "half"
        if breaks:
            cancelled = asyncio.create_task(asyncio.Event().wait())
            cancelled.cancel()
            await cancelled

    async def with_ctx(ctx: RequestContext = Depends(skald.http.context)) -> Response:
        await ctx.sql("INSERT INTO note VALUES ('x')")
        return StreamingResponse(half())

    async def plain() -> Response:
        return StreamingResponse(half())

    app.post("/half")(with_ctx if has_ctx else plain)
    breaks, target = True, "/sub/half" if is_mounted else "/half"
    assert [r.status_code for _ in range(2) for r in shop.send(("k", b"", {}), target=target)] == [500, 500]
    assert "nothing remains" in str(raised_by(shop, target))
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.idempotency")) == (0, 0)
    breaks = False
    assert [(r.status_code, r.text) for _ in range(2) for r in shop.send(("k", b"", {}), target=target)] == [(200, "half")] * 2


def test_two_guards_on_a_requests_way_are_an_error_that_says_so(shop: Shop, url: str) -> None:  # noqa: F811
    sub = FastAPI()
    other = skald.http.guard(sub, database_url=url)
    sub.post("/notes")(lambda: "never")
    shop.app.mount("/sub", sub)
    assert [r.status_code for r in shop.send(("k", b"", {}), target="/sub/notes")] == [500]
    assert "have one guard() on a request's way" in str(raised_by(shop, "/sub/notes"))
    shop.guard.guarded = lambda r: r.method == "POST" and not r.url.path.startswith("/sub/")
    assert [(r.status_code, r.headers.get("idempotency-replayed")) for _ in range(2) for r in shop.send(("k", b"", {}), target="/sub/notes")] == [
        (200, None), (200, "true")]
    shop.loop.run_until_complete(other.close())


class Wrapped:
    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@pytest.mark.parametrize("how", ["wrapped", "host", "late"])
def test_a_redirect_that_is_raised_in_another_application_is_sent(shop: Shop, how: str) -> None:
    sub = FastAPI()

    @sub.post("/sub/raises" if how == "host" else "/raises")
    async def raises(ctx: RequestContext = Depends(skald.http.context)) -> Response:
        await ctx.sql("INSERT INTO note VALUES ('x')")
        raise HTTPException(302, headers={"Location": "/login"})

    if how == "late":
        assert [r.status_code for r in shop.send(("k", ORDER, {}), target="/none")] == [404]
    if how == "host":
        shop.app.host("shop", sub)
    else:
        shop.app.mount("/sub", Wrapped(sub) if how == "wrapped" else sub)
    assert [(r.status_code, r.headers["location"]) for _ in range(2) for r in shop.send(("k", b"", {}), target="/sub/raises")] == [(302, "/login")] * 2
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.idempotency")) == (0, 0)


def test_a_stream_of_an_application_with_middleware_that_breaks_off_is_not_sent(shop: Shop) -> None:
    sub = FastAPI()
    shop.app.mount("/sub", Wrapped(sub))

    @sub.middleware("http")
    async def passes(request: Request, call_next: Callable[[Request], Any]) -> Any:
        return await call_next(request)

    @sub.post("/raises")
    async def raises(chunks: int, ctx: RequestContext = Depends(skald.http.context)) -> Response:
        async def breaks() -> AsyncIterator[str]:
            for _ in range(chunks):
                yield "half"
            raise KeyError("broke")

        return StreamingResponse(breaks())

    assert [r.status_code for n in range(2) for r in shop.send(("k", b"", {}), target=f"/sub/raises?chunks={n}")] == [500, 500]


@pytest.mark.parametrize("is_mounted", [False, True])
def test_what_an_application_makes_of_an_exception_is_sent_and_not_stored(shop: Shop, is_mounted: bool) -> None:
    app = FastAPI() if is_mounted else shop.app
    if is_mounted:
        shop.app.mount("/sub", app)

    @app.exception_handler(KeyError)
    def mapped(_: Request, error: Exception) -> Response:
        return Response("sorry")

    @app.post("/raises")
    async def raises(ctx: RequestContext = Depends(skald.http.context)) -> Response:
        await ctx.sql("INSERT INTO note VALUES ('x')")
        if raised:
            raise raised.pop(0)
        return Response(status_code=201)

    raised: list[Exception] = [KeyError("mapped"), HTTPException(302, headers={"Location": "/login"}), HTTPException(404)]
    answers = [shop.send(("k", b"", {}), target="/sub/raises" if is_mounted else "/raises")[0] for _ in range(5)]
    assert [(r.status_code, r.headers.get("idempotency-replayed")) for r in answers] == [
        (200, None), (302, None), (404, None), (201, None), (201, "true")]
    assert shop.notes() == 1


def test_bad_data_of_a_mounted_application_is_a_bad_body(shop: Shop) -> None:
    sub = FastAPI()

    @sub.post("/orders")
    async def place(order: Order, ctx: RequestContext = Depends(skald.http.context)) -> Response:
        return await shop.note(ctx, order)

    shop.app.mount("/sub", sub)
    assert [problem(r) for r in shop.send(("k", b'{"quantity":"many"}', {}), target="/sub/orders")] == [(400, "body")]
    assert [r.status_code for r in shop.send(("k", ORDER, {}), target="/sub/orders")] == [201]
