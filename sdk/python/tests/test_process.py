"""Processes on a real PostgreSQL and RabbitMQ: DATABASE_URL, AMQP_URL (scripts/stack.sh), SKALD (the command line)."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any, Mapping

import pika
import psycopg
import pytest
from payments_shop import Shop, message, shop, template, url  # noqa: F401

import skald
from skald.http import Guard

PROGRAM = """
import os
import threading
import skald
p = skald.Participant("payments")
@p.retriable("order", "pay-out")
def pay_out(ctx, order):
    ctx.sql("UPDATE wallet SET cents = cents - 1")
    if ctx.saga == "kills":
        os._exit(3)
    if ctx.saga == "hangs":
        threading.Event().wait()
p.run()
"""


def wait_for(holds: Any) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


class Process:
    """A participant, and who sends it messages."""

    def __init__(self, shop: Shop) -> None:
        self.broker = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
        self.channel = self.broker.channel()
        for queue in ("skald.payments", "skald.payments.parked", "skald.payments.database"):
            self.channel.queue_delete(queue)
        self.env = {**os.environ, "DATABASE_URL": shop.participant.database_url}
        self.said = tempfile.NamedTemporaryFile()

    def start(self, more: str = "", program: str = PROGRAM) -> None:
        program = program.replace('"payments"', f'"payments"{more}')
        self.process = subprocess.Popen([sys.executable, "-c", program], env=self.env, stderr=self.said)

    def output(self) -> str:
        return Path(self.said.name).read_text(encoding="utf-8")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, number: int | str, headers: Mapping[Any, Any] = {}, exchange: str = "skald") -> None:
        m = message("pay-out", 4, key=number if isinstance(number, str) else f"k{number}")
        self.channel.basic_publish(exchange, "payments", m.body, pika.BasicProperties(
            type=m.type, message_id=m.message_id, headers={**m.headers, **headers}, content_type="application/json", delivery_mode=2))

    def queue(self) -> Any:
        return self.channel.queue_declare("skald.payments", passive=True).method

    def is_ready(self) -> bool:
        return "is ready" in self.output()

    def is_served(self) -> bool:  # a queue is bound some time after it was declared
        try:
            return bool(self.broker.channel().queue_declare("skald.payments", passive=True).method.consumer_count)
        except pika.exceptions.ChannelClosedByBroker:
            return False

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        wait_for(lambda: self.channel.queue_declare("skald.payments", passive=True).method.consumer_count == 0)
        assert self.channel.queue_declare("skald.payments", passive=True).method.message_count == 0  # what was not acked would be back
        self.broker.close()


def test_a_process_takes_what_comes_is_killed_and_ends_when_told(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    for number in range(30):
        p.send(number if number < 10 else number - 10)
        if number % 10 == 5:
            p.kill()
            p.start()
    wait_for(lambda: shop.cents == 80)
    p.end()
    assert (shop.cents, shop.one("SELECT count(*) FROM skald.idempotency")) == (80, 20)


def test_a_home_without_a_step_takes_the_reports_of_its_sagas(shop: Shop) -> None:
    shop.c.execute("DELETE FROM skald.saga")
    shop.c.execute("""SELECT skald.start('', 'k', 'welcome', 1, '{}', 'forward 1/1 greet@mail=retriable', sha256('{}'), 'mail', 'greet', '{}',
        '{"x-idempotency-key": "k:greet", "x-saga-scope": "", "x-saga": "welcome", "x-saga-itinerary": "forward 1/1 greet@mail=retriable"}')""")
    p = Process(shop)
    p.start(program='import skald; skald.Participant("payments").run()')
    wait_for(p.is_served)
    report = {"scope": "", "key": "k", "step": "greet", "service": "mail", "status": "completed", "attempts": 1, "at": "2026-01-01T00:00:00Z",
              "saga": "completed"}
    p.channel.basic_publish("skald", "payments", json.dumps([report]).encode(), pika.BasicProperties(
        type="skald.progress", message_id="k:greet.progress", headers={"x-idempotency-key": "k:greet.progress", "x-saga-scope": ""}))
    wait_for(lambda: shop.one("SELECT status FROM skald.saga WHERE key = 'k'") == "completed")
    p.end()


def test_a_second_signal_ends_a_process_whose_step_hangs(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    p.send("hangs")
    wait_for(lambda: shop.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"))
    p.process.send_signal(signal.SIGTERM)

    def ends() -> bool:  # two that arrive together are one
        p.process.send_signal(signal.SIGINT)
        return p.process.poll() is not None

    wait_for(ends)
    assert p.process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)  # whichever is second
    p.broker.close()


def test_what_a_policy_has_parked_is_processed_and_what_came_too_often_is_not(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    for number, headers in enumerate(({}, {"x-first-death-reason": "expired"}, {"x-first-death-reason": "delivery_limit"})):
        p.send(number, headers, "skald.parked")
    wait_for(lambda: shop.cents == 98 and shop.one("SELECT count(*) FROM skald.parked") == 1)
    p.end()
    assert shop.one("SELECT reason || ' ' || key FROM skald.parked") == "delivery_limit k2"


def test_what_kills_a_process_takes_no_other_delivery_along(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    p.send(0)
    wait_for(lambda: p.queue().consumer_count == 2)  # then it has the whole prefetch
    p.kill()
    wait_for(lambda: p.queue().consumer_count == 0)
    p.send("kills")
    for number in range(1, 20):
        p.send(number)
    for _ in range(4):
        p.start()
        assert p.process.wait(30) == 3
    wait_for(lambda: p.queue().message_count == 20)
    came_back = {}
    for _ in range(20):
        _, properties, _ = p.channel.basic_get("skald.payments")
        came_back[properties.message_id] = properties.headers.get("x-delivery-count", 0)
    assert came_back.pop("kills:pay-out") == 4
    assert set(came_back.values()) == {0}
    p.broker.close()


def test_what_a_database_without_writes_does_not_take_is_kept(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    name, sessions = shop.one("SELECT current_database()"), "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
    shop.c.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        shop.c.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald/payments'")
        for number in range(20):
            p.send(number)
        wait_for(lambda: "kept until the database takes it" in p.output() or "trying again" in p.output())
        tried = shop.one(sessions)
        wait_for(lambda: shop.one(sessions) > tried + 1)
    finally:
        shop.c.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    wait_for(lambda: shop.cents == 80)
    p.end()
    assert p.output().count("kept until the database takes it") == 1
    assert "trying again" not in p.output()  # which gives back all that it has, and counts as a delivery of each


def test_a_process_of_another_database_takes_nothing(shop: Shop) -> None:
    p = Process(shop)
    for more in ("", ", declare=False"):
        for queue in ("skald.payments.database", f"skald.payments.database.{shop.one('SELECT id FROM skald.service')}"):
            p.channel.queue_delete(queue)
        url = os.environ["DATABASE_URL_PAYMENTS"]
        for verb in ("migrate", "declare"):
            subprocess.run([os.environ["SKALD"], verb, "--service", "payments"], check=True, env={**p.env, "DATABASE_URL": url})
        p.send(1)
        p.start(more)
        assert p.process.wait(30) == 1
        assert re.search(r"belong to another database than the DATABASE_URL's \(\S+\), or none was declared: check it, or run `skald declare`", p.output())
        wait_for(lambda: p.channel.queue_declare("skald.payments", passive=True).method.message_count == 1)
        p.channel.queue_purge("skald.payments")
        Path(p.said.name).write_text("")
    assert shop.cents == 100
    with psycopg.connect(os.environ["DATABASE_URL_PAYMENTS"]) as other:
        row = other.execute("SELECT id::text FROM skald.service").fetchone()
        assert row
    for queue in ("skald.payments.database", f"skald.payments.database.{row[0]}"):
        p.channel.queue_delete(queue)
    p.broker.close()


def test_a_queue_that_is_deleted_is_declared_and_consumed_again(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    p.channel.queue_delete("skald.payments")
    wait_for(p.is_served)
    p.send(1)
    wait_for(lambda: shop.cents == 99)
    p.end()


def test_a_process_that_declares_nothing_tries_until_its_queue_is_there(shop: Shop) -> None:
    p = Process(shop)
    declare = [os.environ["SKALD"], "declare", "--service", "payments"]
    subprocess.run(declare, check=True, env=p.env)
    p.channel.queue_delete("skald.payments")
    p.start(", declare=False")
    wait_for(lambda: "trying again with new connections" in p.output())
    subprocess.run(declare, check=True, env=p.env)
    wait_for(p.is_served)
    p.send(1)
    wait_for(lambda: shop.cents == 99)
    p.channel.queue_delete(f"skald.payments.database.{shop.one('SELECT id FROM skald.service')}")
    p.end()


def test_an_odd_header_takes_no_other_message_along(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    with monkeypatch.context() as patch:
        patch.setattr("pika.data.calendar.timegm", lambda _: 1_700_000_000_000)  # not seconds
        p.send(0, {"sent-at": datetime.now()})
    p.send(1, {b"\xff": "x"})
    for number in range(2, 22):
        p.send(number)
    wait_for(lambda: shop.cents == 78)
    p.end()
    assert "trying again" not in p.output()


def test_a_process_that_waits_for_a_lock_ends_when_told(shop: Shop) -> None:
    p = Process(shop)
    p.start()
    wait_for(p.is_served)
    with psycopg.connect(shop.participant.database_url) as other:
        other.execute("LOCK TABLE skald.service")
        p.send(1)
        wait_for(lambda: shop.one("SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database "
                                  "WHERE datname = current_database())"))
        p.process.send_signal(signal.SIGTERM)
        assert p.process.wait(10) == 0
    p.start()
    wait_for(lambda: shop.cents == 99)
    p.end()


def test_an_address_that_is_none_is_said_at_the_start(url: str) -> None:
    for other in ("", "localhost", "http://localhost", "amqp:localhost", "amqpx://localhost", "amqp://localhost:x", "amqp://u:s@e/cret@localhost/x"):
        with pytest.raises(ValueError, match="AMQP_URL is not the URL of a broker"):
            skald.Participant("payments", database_url=url, amqp_url=other).run()


@pytest.mark.parametrize("prefetch", [0, -1, 65536, 100000, "16"])
def test_a_prefetch_that_no_broker_takes_is_said_at_the_start(prefetch: Any) -> None:
    with pytest.raises(ValueError, match="prefetch is a number from 1 to 65535"):
        skald.Participant("payments", database_url="none", amqp_url="amqp://localhost", prefetch=prefetch).run()


@pytest.mark.parametrize("address", ["", " ", "localhost", "mysql://u:cret@localhost/x", "postgresql://u:se%cret@localhost/x", "postgresql://u:se cret@localhost/x",
                                     "postgresql://u:se@cret@localhost/x", "postgresql://u:s@e/cret@localhost/x", "postgresql://localhost:cret/x",
                                     "postgresql://localhost/x?password=se%cret", "password='secret"])
def test_an_address_that_is_no_databases_is_refused_without_its_password(address: str) -> None:
    for opened in (lambda: skald.Participant("payments", database_url=address).connect(), lambda: Guard(address)):
        with pytest.raises(ValueError, match="^DATABASE_URL is not the URL of a database") as refused:
            opened()
        assert "cret" not in "".join(traceback.format_exception(refused.value)).replace(address, "")


def test_a_broker_that_is_not_there_is_said(shop: Shop) -> None:
    p = Process(shop)
    p.broker.close()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        p.env["AMQP_URL"] = f"amqp://127.0.0.1:{nobody.getsockname()[1]}"
        p.start()
        wait_for(lambda: re.search("trying again with new connections: .*Connection refused", p.output()))
    p.process.terminate()
    assert p.process.wait(20) == 0
