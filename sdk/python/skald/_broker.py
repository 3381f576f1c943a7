"""Where the broker is, and the queues of a participant."""

from __future__ import annotations

import re
from typing import Any, Callable

import pika
import pika.data


def _decode_value(encoded: bytes, offset: int, decode: Callable[[bytes, int], Any] = pika.data.decode_value) -> Any:
    """Pika's aborts the connection for a time beyond the year 9999, of whoever sent milliseconds; then that message would come again for ever."""
    try:
        return decode(encoded, offset)
    except (ValueError, OverflowError, OSError):
        if encoded[offset:offset + 1] != b"T":
            raise
        return int.from_bytes(encoded[offset + 1:offset + 9], "big"), offset + 9


pika.data.decode_value = _decode_value


def address(url: str) -> pika.URLParameters:
    try:
        # Pika connects to any; and to a piece of a password that has an @ and a / of its own.
        if not re.match("amqps?://(?![^?]*@[^?]*/[^?]*@)", url, re.IGNORECASE):
            raise ValueError
        return pika.URLParameters(url)
    except Exception:
        raise ValueError("AMQP_URL is not the URL of a broker, such as amqp://user:password@host:5672/vhost: "
                         "a password's %, @, : and / are written %25, %40, %3A, %2F") from None


def expect_queues(channel: Any, service: str, database: str, declare: bool) -> None:
    """The queues of docs/protocol.md, "Routing". The first one is bound to this database: another one's process is refused."""
    queue, quorum = f"skald.{service}", {"x-queue-type": "quorum"}
    left = {**quorum, "x-dead-letter-exchange": "skald.parked", "x-dead-letter-routing-key": database}
    limited = {**left, "x-dead-letter-routing-key": service, "x-delivery-limit": 50, "x-dead-letter-strategy": "at-least-once",
               "x-overflow": "reject-publish"}
    # Who declares nothing sees no arguments, but the name of the queue that `skald declare` has made for its database.
    marker = f"{queue}.database" if declare else f"{queue}.database.{database}"
    try:
        channel.queue_declare(marker, durable=True, passive=not declare, arguments=left)
    except pika.exceptions.ChannelClosedByBroker as refused:
        if refused.reply_code not in (404, 406):
            raise
        raise ValueError(f"the messages for {service} belong to another database than the DATABASE_URL's ({database}), or none was declared: "
                         f"check it, or run `skald declare` ({refused})") from None
    for suffix, arguments in (("", limited), (".parked", quorum)) if declare else ():
        channel.exchange_declare(f"skald{suffix}", "direct", durable=True)
        channel.queue_declare(queue + suffix, durable=True, arguments=arguments)
        channel.queue_bind(queue + suffix, f"skald{suffix}", service)
