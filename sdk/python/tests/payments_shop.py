"""A participant for the tests to attack, and the messages for it: DATABASE_URL (scripts/stack.sh), SKALD (the command line)."""

from __future__ import annotations

import os
import subprocess
import uuid
from typing import Any, Iterator

import psycopg
import pytest

import skald

PLAN = "create@orders=compensatable charge@payments=compensatable ship@shipping=pivot pay-out@payments=retriable"
BODY = b' {"id": "1", "cents": 1.50, "big": 9007199254740993}'


def message(step: str, place: int, body: bytes = BODY, back: bool = False, key: str = "k",
            headers: dict[str, str] | None = None) -> skald.Message:
    id = f"{key}:{step}{'.compensate' * back}"
    return skald.Message(step, {
        "x-idempotency-key": id, "x-saga-scope": "", "x-saga": "order", "x-saga-home": "orders",
        "x-saga-itinerary": f"{'back' if back else 'forward'} {place}/4 {PLAN}", **(headers or {})}, body, id)


charge_message = message("charge", 2)


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    server = os.environ["DATABASE_URL"]
    name = f"sdk_python_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
        url = server.rsplit("/", 1)[0] + "/" + name
        subprocess.run([os.environ["SKALD"], "migrate", "--service", "payments"], check=True, env={**os.environ, "DATABASE_URL": url})
        yield url
        c.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(template: str) -> str:
    with psycopg.connect(template, autocommit=True) as c:
        c.execute("DROP TABLE IF EXISTS wallet; CREATE TABLE wallet (cents int CHECK (cents >= 0)); INSERT INTO wallet VALUES (100)")
        for table in ("idempotency", "outbox", "parked", "hosted", "hosted_version"):
            c.execute(f"DELETE FROM skald.{table}")
    return template


class Shop:
    def __init__(self, url: str) -> None:
        self.participant = p = skald.Participant("payments", database_url=url)
        self.raises: list[Any] = []
        self.ran: list[skald.Context] = []
        self.c = psycopg.connect(url, autocommit=True)

        @p.compensatable("order", "charge", attempts=2, first_ms=0)
        def charge(ctx: skald.Context, order: dict[str, Any]) -> None:
            self.ran.append(ctx)
            ctx.sql("UPDATE wallet SET cents = cents - 10")
            ctx.publish("mail", "charged", {"id": order["id"]})
            if self.raises:
                what = self.raises.pop(0)
                if callable(what):
                    what(ctx, order)
                else:
                    raise what

        @charge.compensation
        def refund(ctx: skald.Context, order: dict[str, Any]) -> None:
            ctx.sql("UPDATE wallet SET cents = cents + 10")

        @p.retriable("order", "pay-out")
        def pay_out(ctx: skald.Context, order: dict[str, Any]) -> dict[str, Any]:
            return {**order, "paid": True}

        @p.pivot("trip", "buy", version=3, upcast=lambda data, version: {**data, "was": version})
        def buy(ctx: skald.Context, trip: dict[str, Any]) -> None:
            if self.raises:
                self.raises.pop(0)(ctx, trip)

    def one(self, query: str) -> Any:
        row = self.c.execute(query).fetchone()
        return row[0] if row else None

    def record(self, step: str) -> Any:
        return self.one(f"SELECT status::text FROM skald.idempotency WHERE step = '{step}'")

    def sent(self) -> list[tuple[str, str]]:
        return self.c.execute("SELECT destination, idempotency_key FROM skald.outbox WHERE type <> 'skald.progress' ORDER BY id").fetchall()

    @property
    def cents(self) -> Any:
        return self.one("SELECT cents FROM wallet")


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    made = Shop(url)
    yield made
    made.c.close()
