"""An application behind the guard, on a real PostgreSQL: DATABASE_URL (scripts/stack.sh), SKALD (the command line)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from typing import Any, Awaitable, Callable, Iterator

import httpx
import psycopg
import pytest
from fastapi import Depends, FastAPI, Response
from pydantic import BaseModel

import skald.http
from skald.http import RequestContext

ORDER = b'{"customer": "ada", "sku": "tea", "quantity": 0, "cents": 5}'


class Order(BaseModel):
    quantity: int


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    server = os.environ["DATABASE_URL"]
    name = f"sdk_http_{uuid.uuid4().hex}"
    url = server.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(server, autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
        subprocess.run([os.environ["SKALD"], "migrate", "--service", "orders"], check=True, env={**os.environ, "DATABASE_URL": url})
        yield url
        c.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Shop:
    """An application with one handler, which does what a test tells it to."""

    def __init__(self, url: str, app: FastAPI | None = None, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.c = psycopg.connect(url, autocommit=True)
        self.c.execute("CREATE TABLE IF NOT EXISTS note (text text); TRUNCATE note")
        for table in ("idempotency", "response", "outbox", "saga"):
            self.c.execute(f"DELETE FROM skald.{table}")
        self.act: Callable[[RequestContext, Order], Awaitable[Response]] = self.note
        self.app = app or FastAPI()
        self.guard = skald.http.guard(self.app, **{"database_url": url, "scope": lambda r: r.headers.get("X-Scope", ""), **settings})
        self.runs = 0

        @self.app.post("/orders")
        async def place(order: Order, ctx: RequestContext = Depends(skald.http.context)) -> Response:
            self.runs += 1
            return await self.act(ctx, order)

        @self.app.get("/floors")
        async def floors(floor: int) -> int:
            return floor

    async def note(self, ctx: RequestContext, order: Order) -> Response:
        await ctx.sql("INSERT INTO note VALUES (%s)", (ctx.key,))
        return Response(f'{{"key":"{ctx.key}"}}', 201, {"Location": "/caf\u00e9", "Set-Cookie": "a=b"}, "application/json")

    def send(self, *requests: tuple[str, bytes, dict[str, str]] | Callable[[], Awaitable[None]], target: str = "/orders") -> list[httpx.Response]:
        async def all_of_them() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                async def one(r: Any) -> Any:
                    if callable(r):
                        return await r()
                    key, body, more = r
                    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key.encode("latin-1")} if key else {}), **more}
                    return await client.post(target, content=body, headers=headers)

                return [r for r in await asyncio.gather(*map(one, requests)) if r is not None]

        return self.loop.run_until_complete(asyncio.wait_for(all_of_them(), 60))

    def close(self) -> None:
        self.c.close()
        self.loop.run_until_complete(self.guard.close())
        self.loop.close()

    def one(self, query: str) -> Any:
        row = self.c.execute(query).fetchone()
        return row[0] if row else None

    def notes(self) -> Any:
        return self.one("SELECT count(*) FROM note")


@pytest.fixture
def shop(url: str, request: pytest.FixtureRequest) -> Iterator[Shop]:
    made = Shop(url, **getattr(request, "param", {}))
    yield made
    made.close()


def problem(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("/problems/")


def raised_by(shop: Shop, target: str = "/orders", method: str = "POST") -> Exception:
    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(shop.app), base_url="http://shop") as client:
            with pytest.raises(Exception) as error:
                await client.request(method, target, content=ORDER, headers={"Content-Type": "application/json", "Idempotency-Key": "k"})
            raised.append(error.value)

    raised: list[Exception] = []
    shop.send(ask)
    return raised[0]
