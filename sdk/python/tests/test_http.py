"""The guard for FastAPI on a real PostgreSQL, beside the order service in C++ on the same database: DATABASE_URL (scripts/stack.sh), SKALD (the
command line), ORDER_SERVICE (examples/order_saga)."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator

import httpx
import pika
import psycopg
import pytest
from application import ORDER, Order, Shop, problem, shop, url  # noqa: F401
from fastapi import Response
from fastapi.testclient import TestClient
from standby import AbsentStandby

import skald.http
from skald.http import Guard, RequestContext


def test_a_request_takes_effect_once_and_its_response_is_replayed(shop: Shop) -> None:
    first, = shop.send(("k", ORDER, {}))
    again, = shop.send(('"k"', ORDER, {}))
    assert (first.status_code, first.content, first.headers["location"]) == (201, b'{"key":"k"}', "/caf\u00e9")
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert {**first.headers, "idempotency-replayed": "true"} == dict(again.headers)
    assert (again.status_code, again.content, shop.notes()) == (201, first.content, 1)


def test_another_request_under_the_key_is_refused_and_another_scope_is_another_key(shop: Shop) -> None:
    shop.send(("k", ORDER, {}))
    assert [problem(r) for r in shop.send(("k", b'{"quantity":1}', {}))] == [(422, "key-reused")]
    assert [problem(r) for r in shop.send(("k", ORDER, {}), target="/orders?x=1")] == [(422, "key-reused")]
    assert [r.status_code for r in shop.send(("k", ORDER, {"X-Scope": "b"}))] == [201]
    assert [problem(r) for r in shop.send(("k", ORDER, {"X-Scope": "b" * 65}))] == [(400, "scope")]
    assert shop.notes() == 2


def test_a_key_is_needed(shop: Shop) -> None:
    keys = ["", " ", "a b", '"a', '""', "k" * 181, "k\xe9", "k;", '"a";x=1']
    assert [r.status_code for key in keys for r in shop.send((key, ORDER, {}))] == [400] * 8 + [201]
    assert shop.one("SELECT string_agg(key, ',') FROM skald.idempotency") == "a"


def test_while_the_first_is_served_another_is_told_or_waits(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(ctx: RequestContext, order: Order) -> Response:
        entered.set()
        await leave.wait()
        return await shop.note(ctx, order)

    seen: list[httpx.Response] = []

    async def meanwhile() -> None:
        await entered.wait()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(shop.app), base_url="http://shop") as client:
            async def ask(**more: str) -> httpx.Response:
                return await client.post("/orders", content=ORDER, headers={"Content-Type": "application/json", "Idempotency-Key": "k", **more})

            seen.append(await ask())
            seen.append(await ask(Prefer="wait=20"))

    refused: list[str] = []

    async def respond(guard: Guard, *given: Any) -> Any:
        made, run = await answered(guard, *given)
        if made is not None and made.problem == "in-flight" and refused:
            leave.set()
        refused.extend([made.problem] if made is not None and made.problem else [])
        return made, run

    answered = Guard._respond
    monkeypatch.setattr(Guard, "_respond", respond)

    shop.act = slow
    first, = shop.send(("k", ORDER, {}), meanwhile)
    assert problem(seen[0]) == (409, "in-flight") and seen[0].headers["retry-after"] == "1"
    assert (seen[1].status_code, seen[1].content, seen[1].headers["idempotency-replayed"]) == (201, first.content, "true")
    assert [r.headers.get("preference-applied") for r in seen] == [None, "wait=20"]
    assert shop.notes() == 1


def test_what_is_no_outcome_leaves_nothing(shop: Shop) -> None:
    async def passing(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        return Response(status_code=statuses.pop(0))

    async def raises(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        raise RuntimeError("broke")

    statuses = [500, 503, 401, 403, 408, 409, 425, 429]
    shop.act = passing
    assert [shop.send(("k", ORDER, {}))[0].status_code for _ in range(8)] == [500, 503, 401, 403, 408, 409, 425, 429]
    shop.act = raises
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [500]
    assert [problem(r) for r in shop.send(("k", b'{"quantity":"many"}', {}))] == [(400, "body")]
    assert (shop.notes(), shop.one("SELECT count(*) FROM skald.idempotency")) == (0, 0)
    shop.act = shop.note
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]


def test_a_final_conflict_is_an_outcome(shop: Shop) -> None:
    async def conflict(ctx: RequestContext, order: Order) -> Response:
        ctx.is_final = True
        return Response("taken", 409)

    shop.act = conflict
    assert [shop.send(("k", ORDER, {}))[0].headers.get("idempotency-replayed") for _ in range(2)] == [None, "true"]


def test_a_deadlock_is_tried_again_and_a_lost_connection_too(shop: Shop) -> None:
    acts = ["DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$", "SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 1"]

    async def struck(ctx: RequestContext, order: Order) -> Response:
        await ctx.sql(acts.pop(0))
        return await shop.note(ctx, order)

    shop.act = struck
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    acts.extend(["SELECT pg_terminate_backend(pg_backend_pid())"] * 3)
    assert [problem(r) for r in shop.send(("b", ORDER, {}))] == [(503, "unavailable")]
    acts.append("COMMIT")
    assert [r.status_code for r in shop.send(("c", ORDER, {}))] == [500]
    assert (shop.notes(), shop.one("SELECT string_agg(key, ',') FROM skald.idempotency")) == (1, "k")


def test_a_deadlock_that_the_handler_catches_is_tried_again_too(shop: Shop) -> None:
    async def catches(ctx: RequestContext, order: Order) -> Response:
        try:
            await ctx.sql(acts.pop(0))
        except psycopg.errors.DeadlockDetected:
            return Response(status_code=status)
        return await shop.note(ctx, order)

    shop.act = catches
    deadlock = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$"
    for status in (201, 409, 500):
        acts = [deadlock, deadlock, "SELECT 1"]
        assert [r.status_code for r in shop.send((f"a{status}", ORDER, {}))] == [201]
        acts = [deadlock] * 3
        assert [problem(r) for r in shop.send((f"b{status}", ORDER, {}))] == [(503, "about:blank")]
    assert (shop.notes(), shop.runs) == (3, 18)


def test_a_server_that_was_made_read_only_is_left(url: str) -> None:  # noqa: F811
    shop = Shop(url, database_url=f"{url}?target_session_attrs=any&options=-c%20default_transaction_read_only%3Don")
    assert ([problem(r) for r in shop.send(("k", ORDER, {}))], shop.runs) == ([(503, "unavailable")], 0)
    shop.close()


def test_sessions_that_ended_while_they_were_idle_are_replaced(shop: Shop) -> None:
    leave = asyncio.Event()

    async def together(ctx: RequestContext, order: Order) -> Response:
        if shop.runs == 5:
            leave.set()
        await leave.wait()
        return await shop.note(ctx, order)

    async def idle() -> None:
        await leave.wait()
        while shop.guard._pool_of(shop.loop).get_stats()["pool_available"] < 5:
            await asyncio.sleep(0.01)

    shop.act = together
    shop.send(idle, *((f"k{n}", ORDER, {}) for n in range(5)))
    shop.c.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    assert (shop.notes(), shop.runs) == (6, 6)


def test_a_test_client_has_an_event_loop_for_each_request(shop: Shop) -> None:
    async def act(ctx: RequestContext, order: Order) -> Response:
        await shop.note(ctx, order)
        return Response(status_code=201)

    shop.act, client = act, TestClient(shop.app)
    for number in range(6):
        with client if number > 3 else contextlib.nullcontext():
            for key in (f"k{number}", f"k{number}", f"b{number}"):
                assert client.post("/orders", content=ORDER, headers={"Content-Type": "application/json", "Idempotency-Key": key}).status_code == 201
    assert shop.notes() == 12
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    [last] = shop.guard._pools.values()
    while shop.one(sessions) > 1 + last.get_stats()["pool_size"]:  # that one, and the last loop's
        pass


@pytest.mark.parametrize("name, times, status", [("execute", 1, 201), ("connect", 3, 503)])
def test_an_event_loop_ends_while_the_pool_resets_or_connects(shop: Shop, name: str, times: int, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, called, answers = getattr(psycopg.AsyncConnection, name), list[object](), list[int]()

    async def call(*args: Any, **kwargs: Any) -> Any:
        if name == "connect" or args[1].startswith("RESET ALL"):
            called.append(args)
            if len(called) > times:  # behind the response
                await asyncio.Event().wait()
        return await real(*args, **kwargs)

    async def act(ctx: RequestContext, _: Order) -> Response:
        if name == "connect":
            await ctx.connection.close()
        return Response(status_code=201)

    def ask() -> None:
        client = TestClient(shop.app, raise_server_exceptions=False)
        answers.append(client.post("/orders", content=ORDER, headers={"Content-Type": "application/json", "Idempotency-Key": "k"}).status_code)

    shop.act = act
    monkeypatch.setattr(psycopg.AsyncConnection, name, call)
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(30)
    assert (answers, len(called) > times) == ([status], True)


@pytest.mark.parametrize("shop", [{"connections": 1}], indirect=True)
def test_when_the_database_is_back_the_next_request_is_served(shop: Shop) -> None:
    pool = shop.guard._pool_of(shop.loop)
    assert pool.reconnect_timeout < pool.timeout  # and not minutes, after an outage of minutes
    pool.reconnect_timeout, pool.timeout = 0, 0.5
    name = shop.one("SELECT current_database()")
    assert [r.status_code for r in shop.send(("a", ORDER, {}))] == [201]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            shop.c.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
            assert [problem(r) for r in shop.send(("b", ORDER, {}))] == [(503, "unavailable")]
        finally:
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert [r.status_code for r in shop.send(("b", ORDER, {}))] == [201]


def test_what_is_not_known_after_commit_is_found_out(shop: Shop) -> None:
    shop.c.execute("""CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cut()""")
    try:
        assert [problem(r) for r in shop.send(("k", ORDER, {}))] == [(503, "outcome-unknown")]
    finally:
        shop.c.execute("DROP FUNCTION cut() CASCADE")
    assert [r.status_code for r in shop.send(("k", ORDER, {}))] == [201]
    assert shop.notes() == 1


def test_a_commit_that_was_made_to_stop_waiting_for_a_standby_is_not_believed(shop: Shop, url: str) -> None:  # noqa: F811
    with AbsentStandby(url) as standby:
        assert [problem(r) for r in standby.cancelled(lambda: shop.send(("k", ORDER, {})))] == [(503, "outcome-unknown")]
        assert [problem(r) for r in standby.cancelled(lambda: shop.send(("k", ORDER, {})))] == [(503, "outcome-unknown")]
        assert (shop.notes(), shop.runs) == (1, 1)
        with ThreadPoolExecutor(1) as thread:
            answers = thread.submit(shop.send, ("b", ORDER, {}))
            while not standby.cancel():
                pass
            standby.end()
            assert [(r.status_code, r.headers.get("idempotency-replayed")) for r in answers.result()] == [(201, "true")]
    assert [(r.status_code, r.headers.get("idempotency-replayed")) for r in shop.send(("k", ORDER, {}))] == [(201, "true")]
    assert (shop.notes(), shop.runs) == (2, 2)


def test_a_commit_that_waits_for_a_standby_is_cut_off(shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with AbsentStandby(url):
        monkeypatch.setattr(skald.http, "COMMIT_MAX", 0.3)
        assert [problem(r) for r in shop.send(("k", ORDER, {}))] == [(503, "outcome-unknown")]
    monkeypatch.undo()
    assert [(r.status_code, r.headers.get("idempotency-replayed")) for r in shop.send(("k", ORDER, {"Prefer": "wait=20"}))] == [(201, "true")]
    assert (shop.notes(), shop.runs) == (1, 1)


@pytest.fixture
def in_cpp(url: str) -> Iterator[Callable[[str, bytes], http.client.HTTPResponse]]:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # The queues belong to one database, and an earlier test may have had another.
    broker = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    for queue in ("skald.orders", "skald.orders.parked", "skald.orders.database"):
        broker.channel().queue_delete(queue)
    broker.close()
    process = subprocess.Popen([os.environ["ORDER_SERVICE"], "--listen", f"127.0.0.1:{port}"],
                               env={**os.environ, "DATABASE_URL": url})

    def send(key: str, body: bytes, target: str = "/orders") -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", target, body, {"Idempotency-Key": key})
        return connection.getresponse()

    until = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                break
        except OSError:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
    yield send
    process.terminate()
    assert process.wait(30) == 0


def test_the_program_of_the_page_runs(shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "http-languages.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    monkeypatch.setenv("DATABASE_URL", url)
    known: dict[str, Any] = {}
    exec(blocks[0].replace("skald.http.guard(app,", "made = skald.http.guard(app,"), known)
    shop.c.execute("CREATE TABLE wallet (owner text)")
    shop.app = known["app"]
    assert [r.status_code for who in ("a-token", "a-token", "b")
            for r in shop.send(("k", b"", {"Authorization": f"Bearer {who}"}), target="/wallets/ada")] == [201, 201, 401]
    assert [shop.one(f"SELECT count(*) FROM {table}") for table in ("wallet", "skald.saga")] == [1, 1]
    shop.loop.run_until_complete(known["made"].close())


ROWS = """SELECT i.status::text, i.attempts, i.snoozes, encode(i.fingerprint, 'hex'), i.error, i.home, r.status_code, r.content_type, r.headers::text,
                 convert_from(r.body, 'UTF8'), r.kept
            FROM skald.idempotency i JOIN skald.response r USING (scope, key) WHERE i.key = %s AND i.step = ''"""


def test_a_service_in_cpp_writes_the_same_rows_and_each_replays_the_other(shop: Shop, in_cpp: Any) -> None:
    async def refuse(ctx: RequestContext, order: Order) -> Response:
        return Response('{"type":"about:blank","title":"Bad Request","status":400,"detail":"quantity must be at least 1"}', 400,
                        media_type="application/problem+json")

    shop.act = refuse
    by_cpp = in_cpp("from-cpp", ORDER, "/orders?a=%20b")
    by_python, = shop.send(("from-python", ORDER, {}), target="/orders?a=%20b")
    assert (by_cpp.status, by_cpp.read()) == (400, by_python.content)
    rows = [shop.c.execute(ROWS, (key,)).fetchone() for key in ("from-cpp", "from-python")]
    assert rows[0] is not None and rows[0] == rows[1]

    replayed, = shop.send(("from-cpp", ORDER, {}), target="/orders?a=%20b")
    assert (replayed.status_code, replayed.content, replayed.headers["idempotency-replayed"]) == (400, by_python.content, "true")
    replayed_there = in_cpp("from-python", ORDER, "/orders?a=%20b")
    assert (replayed_there.status, replayed_there.read(), replayed_there.getheader("Idempotency-Replayed")) == (400, by_python.content, "true")
    # Both refuse what is another request in the same words.
    for key in ("from-cpp", "from-python"):
        there, here = in_cpp(key, b"{}"), shop.send((key, b'{"quantity":1}', {}))[0]
        assert (there.status, there.read(), here.content) == (422, here.content, here.content)
    assert in_cpp("a b", ORDER).read() == shop.send(("a b", ORDER, {}))[0].content


def test_a_saga_is_started_as_cpp_starts_it(shop: Shop, in_cpp: Any) -> None:
    plan = "create-order@orders=compensatable charge-payment@payments=compensatable arrange-shipping@shipping=pivot confirm-order@orders=retriable"
    there = in_cpp("from-cpp", b'{"customer": "ada", "sku": "tea", "quantity": 1, "cents": 5}')
    order = json.loads(there.read())["order_id"]

    async def start(ctx: RequestContext, _: Order) -> Response:
        # The C++ has run the first step in the request.
        await ctx.start("place-order", plan, {"cents": 5, "customer": "ada", "id": order, "quantity": 1, "sku": "tea"})
        return Response(status_code=202)

    shop.act = start
    assert [r.status_code for r in shop.send(("from-python", ORDER, {}))] == [202]
    sagas = shop.c.execute("SELECT scope, definition, version, data::text, itinerary, status::text, deadline_at, kept FROM skald.saga"
                           " WHERE key = ANY (%s) ORDER BY key", (["from-cpp", "from-python"],)).fetchall()
    assert len(sagas) == 2 and sagas[0] == sagas[1]
    sent = shop.c.execute("SELECT destination, type, headers FROM skald.outbox WHERE idempotency_key = 'from-python:create-order'").fetchone()
    assert sent is not None and sent[:2] == ("orders", "create-order")
    assert sent[2]["x-saga-itinerary"] == f"forward 1/4 {plan}"
