"""A participant on the functions of docs/languages-sql.md alone, without the SDK, and what one may do wrong: skald conform must name it.
The first argument is the mistake; `none`: it is right, and does what is unusual and allowed."""

import json
import os
import random
import signal
import sys
import time
from typing import Any

import pika
import psycopg

MISTAKE = sys.argv[1]
SERVICE = "payments"
QUICK = {"attempts": 3, "first_ms": 50, "longest_ms": 200}
STEPS = json.dumps({f"conform/{step}": {"kind": kind, **QUICK}
                    for step, kind in (("charge", "compensatable"), ("ship", "pivot"), ("pay-out", "retriable"))})
KNOWN = {"cents", "rejects_at", "fails_at", "fails", "waits_at", "marks", "receipt"}

begun: set[Any] = set()
charged: dict[str, int] = {}


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


db = connect()
other = connect()
broker = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
channel = broker.channel()
db.execute("SELECT skald.host(%s, %s)", (SERVICE, STEPS))


class Reject(Exception):
    pass


class Snooze(Exception):
    pass


def write(on: psycopg.Connection[Any], row: dict[str, Any], step: str, data: dict[str, Any]) -> None:
    cents = data["cents"]
    if MISTAKE == "wrong_amount":  # refunds what it remembers
        cents = charged.setdefault(row["key"], cents) if step == "charge" else charged.get(row["key"], 0)
    for _ in range(0 if (MISTAKE, step) == ("effect_lost", "pay-out") else 2 if MISTAKE == "effect_twice" else 1):
        on.execute("INSERT INTO conform.ledger (scope, saga, step, cents) VALUES (%s, %s, %s, %s)", (row["scope"], row["key"], step, cents))


def shipped(row: dict[str, Any]) -> bytes:
    return json.dumps({"saga": row["key"]}).encode()


def publish_directly(row: dict[str, Any], step: str) -> None:
    properties = pika.BasicProperties(type="shipped", message_id=f"{row['key']}:{step}.1.shipped", headers={"x-saga-scope": row["scope"]})
    channel.basic_publish("skald", "conform.events", shipped(row), properties)


def publish(row: dict[str, Any], step: str) -> None:
    if MISTAKE == "publishes_directly":
        publish_directly(row, step)
    elif MISTAKE not in ("publishes_before_commit", "publishes_after_commit"):
        for _ in range(2 if MISTAKE == "event_twice" else 1):
            db.execute("SELECT skald.publish(%s, 'conform.events', 'shipped', %s)", (row["taken"], shipped(row)))


def work(row: dict[str, Any], step: str, data: dict[str, Any]) -> None:
    if MISTAKE == "commit_not_durable":
        db.execute("SET LOCAL synchronous_commit = off")
    if MISTAKE != "effect_after_done" and (MISTAKE, step) != ("none", "pay-out"):
        write(other if MISTAKE == "effect_outside" else db, row, step, data)
    if step == "ship":
        publish(row, step)
    if data["fails_at"] == step and row["attempt"] <= data["fails"] and not (MISTAKE == "hides_fault" and data["fails"] < 3):
        raise RuntimeError("as the data say")
    if data["rejects_at"] == step:
        raise Reject("as the data say")
    if MISTAKE != "does_not_wait" and data["waits_at"] == step and not db.execute("SELECT FROM conform.gate WHERE scope = %s AND saga = %s", (row["scope"], row["key"])).rowcount:
        raise Snooze
    if step == "charge" and data["marks"]:
        data["receipt"] = row["key"]


def take(body: bytes, properties: Any, given_up: bool) -> dict[str, Any]:
    headers = {name: str(value).replace("\0", "\\x00") for name, value in (properties.headers or {}).items() if isinstance(value, (str, int))}
    if MISTAKE == "dies_of_poison" and headers.get("x-attempt") == "first" and "x-delivery-count" not in headers:
        os._exit(1)
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute("SELECT verdict, event, scope, key, step, is_compensation, attempt, taken::text FROM skald.take(%s, %s, %s, %s, %s, NULL, %s)",
                              (properties.type or "", json.dumps(headers), body, STEPS, None if MISTAKE == "none" else properties.message_id, given_up)).fetchone()


def end(row: dict[str, Any], step: str, body: bytes, data: dict[str, Any], why: Exception) -> None:
    if isinstance(why, Snooze):
        if MISTAKE != "snoozes_by_ack":
            db.execute("SELECT skald.snooze(%s, %s, interval '100 ms')", (row["taken"], body))
    elif isinstance(why, Reject):
        if MISTAKE == "reject_without_rollback":
            db.execute("BEGIN")
            write(db, row, step, data)
        db.execute("SELECT skald.reject(%s, %s, %s)", (row["taken"], body, str(why)))
        if MISTAKE == "reject_without_rollback":
            db.execute("COMMIT")
    else:
        db.execute("SELECT skald.fail(%s, %s, %s)", (row["taken"], body, str(why)))


def handle(delivery: Any, properties: Any, body: bytes, given_up: bool) -> None:
    global db, other
    if MISTAKE == "remembers_before_commit":
        this = (properties.message_id, str(properties.headers), body)
        if this in begun:
            return channel.basic_ack(delivery.delivery_tag)
        begun.add(this)
    db.execute("BEGIN")
    row = take(body, properties, given_up)
    step = f"{row['step']}{'.compensate' if row['is_compensation'] else ''}"
    if row["verdict"] != "run":
        if MISTAKE == "ignores_verdict" and row["event"] == "step.duplicate":
            write(db, row, step, json.loads(body))
        db.execute("COMMIT")
        return None if MISTAKE == "never_acks" and properties.type == "skald.control" else channel.basic_ack(delivery.delivery_tag)
    data = json.loads(body)
    before = json.dumps(data)
    try:
        work(row, step, data)
        if MISTAKE == "loses_members":
            data = {name: value for name, value in data.items() if name in KNOWN}
        sent = body if json.dumps(data) == before else json.dumps(data).encode()
        db.execute("SELECT skald.done(%s, %s)", (row["taken"], sent))
        if (MISTAKE, step) == ("none", "pay-out"):
            write(db, row, step, data)
        if (MISTAKE, step) == ("publishes_before_commit", "ship"):
            publish_directly(row, step)
        if MISTAKE == "ack_before_commit":
            channel.basic_ack(delivery.delivery_tag)
        db.execute("COMMIT")
        if MISTAKE == "effect_after_done":
            write(db, row, step, data)
        if (MISTAKE, step) == ("publishes_after_commit", "ship"):
            publish_directly(row, step)
        if MISTAKE != "ack_before_commit":
            channel.basic_ack(delivery.delivery_tag)
        return None
    except (Reject, Snooze, RuntimeError) as error:
        db.execute("ROLLBACK")
        if MISTAKE == "ack_before_fail":
            channel.basic_ack(delivery.delivery_tag)
        end(row, step, body, data, error)
    except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
        db.execute("ROLLBACK")
        if MISTAKE == "acks_deadlock":
            return channel.basic_ack(delivery.delivery_tag)
        time.sleep(random.uniform(0, 0.1))
        return handle(delivery, properties, body, given_up)
    except psycopg.OperationalError:  # the connection has broken
        db, other = connect(), connect()
        if MISTAKE == "ack_without_commit":
            return channel.basic_ack(delivery.delivery_tag)
        return handle(delivery, properties, body, given_up)
    if MISTAKE != "ack_before_fail":
        channel.basic_ack(delivery.delivery_tag)


def is_given_up(delivery: Any, properties: Any) -> bool:
    return MISTAKE == "gives_up" or delivery.redelivered or (properties.headers or {}).get("x-first-death-reason") == "delivery_limit"


def acks_all(*_: Any) -> None:
    channel.basic_ack(0, multiple=True)
    broker.close()
    os._exit(0)


if MISTAKE == "ack_at_sigterm":
    signal.signal(signal.SIGTERM, acks_all)
if MISTAKE == "ignores_sigterm":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
channel.basic_qos(prefetch_count=8)
channel.basic_consume(f"skald.{SERVICE}", lambda _, d, p, body: handle(d, p, body, False))
if MISTAKE != "leaves_parked":
    channel.basic_consume(f"skald.{SERVICE}.parked", lambda _, d, p, body: handle(d, p, body, is_given_up(d, p)))
channel.start_consuming()
