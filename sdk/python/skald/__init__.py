"""Steps of Skald's sagas in Python: each happens once in effect. A step is a function, which runs in the transaction of a psycopg
connection with the record that it ran and the message to the next step. docs/languages.md has an example."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import threading
import time
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

import pika
import psycopg
from psycopg.pq import TransactionStatus

from ._broker import address, expect_queues
from ._context import Context, Malformed, Reject, Snooze, ending, own
from ._database import CONTENTION, InDoubt, is_fit, node, restore, watched
from ._left import LEFT_MAX, UNDONE, LeftOpen
from ._text import Trace, dump, headers, line, text

__all__ = ["Context", "Malformed", "Message", "Participant", "Reject", "Snooze", "Step"]

log = logging.getLogger("skald")

OPTIONS = ("version", "attempts", "first_ms", "longest_ms", "deadline_ms")
CONTENDED_MAX, LOST_MAX, IDLE_MAX = 50, 5, 30  # in a row, before they count as an attempt of the step; seconds of silence in a transaction


@dataclass(frozen=True)
class Message:
    """A delivery, as it came."""

    type: str
    headers: Mapping[Any, Any]
    body: bytes
    message_id: str = ""
    content_type: str = "application/json"
    given_up: bool = False  # it is in the queue `skald.SERVICE.parked` by the delivery limit, or came back from there


Function = Callable[[Context, Any], Any]
"""Changes the data, or returns what it is from now on. Raises Reject, Snooze, Malformed; anything else is a fault, and is tried again."""


@dataclass
class Step:
    run: Function
    options: dict[str, Any]
    upcast: Callable[[Any, int], Any] | None
    undo: Function | None = None

    def compensation(self, function: Function) -> Function:
        """What undoes the step, of a compensatable one."""
        self.undo = function
        return function


@dataclass
class Participant:
    """A service's process. It runs one step at a time; start as many processes as you need."""

    service: str
    database_url: str = field(default_factory=lambda: os.environ.get("DATABASE_URL", ""))
    amqp_url: str = field(default_factory=lambda: os.environ.get("AMQP_URL", ""))
    prefetch: int = 16
    declare: bool = True  # False: `skald declare` has made the queues, and this user may not

    def __post_init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._connection: psycopg.Connection[Any] | None = None
        self._database, self._stopping = "", False

    def compensatable(self, definition: str, step: str, **options: Any) -> Callable[[Function], Step]:
        """A step that may reject and can be undone. `options`: version, attempts, first_ms, longest_ms, deadline_ms (docs/languages.md);
        `upcast`: what makes data of an older version, its second argument, data of this one."""
        return self._add(definition, step, "compensatable", **options)

    def pivot(self, definition: str, step: str, **options: Any) -> Callable[[Function], Step]:
        """The point of no return: it may reject, and can't be undone."""
        return self._add(definition, step, "pivot", **options)

    def retriable(self, definition: str, step: str, **options: Any) -> Callable[[Function], Step]:
        """A step after the pivot: it is tried until it succeeds."""
        return self._add(definition, step, "retriable", **options)

    def _add(self, definition: str, step: str, kind: str, upcast: Any = None, **options: Any) -> Callable[[Function], Step]:
        name = f"{definition}/{step}"
        if name in self._steps:
            raise ValueError(f"step {step} of {definition} is there twice")
        if unknown := [option for option in options if option not in OPTIONS]:
            raise TypeError(f"step {name} has no option {unknown[0]}, but {', '.join(OPTIONS)}, upcast")

        def add(function: Function) -> Step:
            self._steps[name] = Step(function, {"kind": kind, **options}, upcast)
            return self._steps[name]

        return add

    def _said(self) -> str:
        return json.dumps({name: step.options for name, step in self._steps.items()})

    def connect(self) -> psycopg.Connection[Any]:
        """The database, which must be this service's. What is wrong with the steps is said here. What you set on the connection, the first
        delivery undoes: register adapters with `psycopg.adapters`, or in the step."""
        if (signatures := os.environ.get("SKALD_SIGNATURES", "")) not in ("", "off", "sign"):
            raise ValueError(f"SKALD_SIGNATURES={signatures}: this SDK does not verify signatures: let a C++ service run these steps, or unset it")
        if self._connection is None or not is_fit(self._connection):
            if wrong := [name for name, step in self._steps.items() if (step.options["kind"] == "compensatable") != (step.undo is not None)]:
                raise ValueError(f"{wrong[0]}: a compensatable step has a compensation, and no other step has one")
            made = psycopg.connect(node(self.database_url), autocommit=True, application_name=f"skald/{self.service}")
            made.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            made.execute("SET default_transaction_isolation = 'read committed'")  # of what runs after ROLLBACK
            try:
                [[self._database]] = made.execute("SELECT skald.host(%s, %s)::text", (self.service, self._said())).fetchall()
            except psycopg.Error as error:
                made.close()
                if error.sqlstate in ("3F000", "42883"):  # no schema, or an older one
                    raise type(error)(f"{error}\nrun `skald migrate --service {self.service}`") from None
                raise
            self._connection = made
        restore(self._connection, psycopg.Cursor)
        return self._connection

    def process(self, message: Message) -> str:
        """Processes a delivery, which can be acked afterwards; returns what happened, by the name that logs use. Raises only if the database
        can't be reached or refuses what Skald itself writes, or if it was to be run again when the process was told to stop, and nothing has
        happened; or if a failover may lose what has."""
        contended = lost = 0
        while True:
            taken: list[str] = []
            connection, began = self.connect(), time.monotonic()
            try:
                return self._run(connection, message, taken)
            except BaseException as error:  # noqa: BLE001 - a fault of any kind: sys.exit() is one too
                if isinstance(error, InDoubt) or (isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()):
                    raise
                is_contention, is_lost = isinstance(error, CONTENTION), connection.closed and connection is self._connection
                contended, lost = contended + is_contention, lost + is_lost
                is_passing = (is_contention and contended < CONTENDED_MAX
                              or is_lost and lost < LOST_MAX and time.monotonic() - began < IDLE_MAX)
                if taken and not is_passing:
                    return self._record(message, taken[0], error)
                if not is_passing:
                    raise
                if self._stopping:
                    raise psycopg.OperationalError(f"told to stop, and not run again after {type(error).__name__}: {text(error)}") from error
            time.sleep(random.uniform(0, 0.005 * 2 ** min(contended + lost, 5)))

    def _record(self, message: Message, taken: str, error: BaseException) -> str:
        call, value = ending(error)
        if call.startswith("fail"):
            log.warning("%s failed\n%s", line(message.message_id), text(Trace(error)))
        with watched(self.connect()) as connection:
            event = str(connection.execute(f"SELECT skald.{call}", (taken, message.body, value)).fetchall()[0][0])
        if event.endswith(".parked"):
            log.error("%s of %s: %s", event, line(message.message_id), line(value))
        return event

    def _run(self, connection: psycopg.Connection[Any], message: Message, taken: list[str]) -> str:
        committed = None
        with connection.transaction(), own(connection):
            [(verdict, event, why, scope, key, definition, version, name, back, attempt, token)] = connection.execute(
                "SELECT verdict, event, why, scope, key, definition, version, step, is_compensation, attempt, taken::text"
                "  FROM skald.take(%s, %s, %s, %s, %s, %s, %s)",
                (text(message.type), json.dumps(headers(message.headers)), message.body, self._said(), text(message.message_id),
                 text(message.content_type), message.given_up)).fetchall()
            if verdict != "run":
                if event.endswith(".parked"):
                    log.error("%s of %s: %s", event, line(message.message_id), line(why))
                with watched(connection):
                    connection.execute("COMMIT AND CHAIN", prepare=False)
                return str(event)
            taken.append(token)
            step = self._steps[f"{definition}/{name}"]
            ctx = Context(connection, scope, key, definition, version, name, attempt, f"{key}:{name}{'.compensate' * back}", token)
            data, received = json.loads(message.body.decode("utf-8-sig")), json.loads(message.body.decode("utf-8-sig"))
            known, seconds = None, 0.0
            if step.upcast and version < step.options.get("version", 1):
                data, received, known = step.upcast(data, version), step.upcast(received, version), step.options["version"]
            try:
                made = (step.undo or step.run)(ctx, data) if back else step.run(ctx, data)
                seconds = LEFT_MAX  # what a step has written that raises need not come to its end
            finally:
                if left := ctx._end(seconds):
                    self._connection = None  # the step's doing: not a lost one
            if left:
                raise LeftOpen(left)
            if connection.info.transaction_status is TransactionStatus.INERROR:
                raise RuntimeError(f"{UNDONE}; the last error is {connection.pgconn.get_error_message()}")
            data = data if made is None else made
            restore(connection, psycopg.Cursor)
            # What has not changed goes on as it came, to the byte and the version. True == 1, but they are not the same JSON.
            same = data == received and json.dumps(data, sort_keys=True) == json.dumps(received, sort_keys=True)
            connection.execute("SELECT skald.done(%s, %s, %s)", (token, *((message.body, None) if same else (dump(data), known))))
            # Psycopg takes ROLLBACK, in answer to COMMIT, for success. What a thread writes in the transaction behind this one is undone.
            with watched(connection):
                committed = connection.execute("COMMIT AND CHAIN", prepare=False).statusmessage
            if committed != "COMMIT":
                raise RuntimeError("the transaction was rolled back: a statement of the step was not awaited, and failed")
            raise psycopg.Rollback
        if committed is None:
            raise RuntimeError("the step raised psycopg.Rollback, which undoes it in silence: raise skald.Reject, or another exception")
        return "step.completed"

    def _stop(self, number: int, _: Any) -> None:
        if self._stopping:
            os._exit(128 + number)  # a step may hang; what the system does by itself it does not do to a container's first process
        self._stopping = True
        log.info("%s: %s waits for the step under way; a second signal ends it at once", signal.Signals(number).name, self.service)

    def run(self) -> None:
        """Processes what comes until SIGTERM or SIGINT. Connections that are lost are opened again; at the start, what is wrong is raised."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if self.prefetch not in range(1, 65536):
            raise ValueError(f"prefetch is a number from 1 to 65535, and not {self.prefetch!r}")
        where = address(self.amqp_url)
        while not self._stopping:
            try:
                self._consume(where)
            except (pika.exceptions.AMQPError, psycopg.Error, OSError) as error:
                if isinstance(error, (psycopg.ProgrammingError, psycopg.DataError)) and not self._database:
                    raise
                log.warning("trying again with new connections: %s", str(error) or repr(error))  # pika's may have no text
                time.sleep(random.uniform(0, 2))

    def _process_kept(self, message: Message, broker: Any, lane: futures.Executor) -> bool:
        """False: told to stop. For anything else it is kept: given back, all that is not acked would count once more, of 50 times."""
        tries = 0
        while not self._stopping:
            running = lane.submit(self.process, message)
            while not futures.wait([running], timeout=5).done:
                broker.sleep(0)  # which sends heartbeats
            try:
                running.result()
                return True
            except (psycopg.Error, OSError) as error:
                if tries % 100 == 0:  # once in some two minutes
                    log.warning("%s is kept until the database takes it: %s", line(message.message_id), line(error))
                if self._connection is not None:
                    self._connection.close()  # its server may have become a standby
                broker.sleep(random.uniform(0, 2))
                tries += 1
        return False

    def _consume(self, where: pika.URLParameters) -> None:
        self.connect()
        # The steps have a thread of their own, and it is waited for: none runs beside the first of the next connection.
        with pika.BlockingConnection(where) as broker, futures.ThreadPoolExecutor(1) as lane:
            channel = broker.channel()
            expect_queues(channel, self.service, self._database, self.declare)

            def handle(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                headers = properties.headers or {}
                # What a policy or another client has put there is processed; once, because that queue counts no deliveries.
                given_up = method.consumer_tag == "given-up" and (method.redelivered or headers.get("x-first-death-reason") == "delivery_limit")
                if self._process_kept(Message(properties.type or "", headers, body, properties.message_id or "",
                                              properties.content_type or "application/json", given_up), broker, lane):
                    channel.basic_ack(method.delivery_tag)
                    acked.add(method.consumer_tag)

            # After a crash, the delivery that caused it is first in the queue. Take it alone, so that no other is counted with it.
            acked: set[str] = set()
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(f"skald.{self.service}.parked", handle, consumer_tag="given-up")
            consumers = ["given-up", channel.basic_consume(f"skald.{self.service}", handle)]
            log.info("%s is ready", self.service)
            while not self._stopping:
                broker.process_data_events(time_limit=0.5)
                if len(consumers) == 2 and consumers[1] in acked and self.prefetch > 1 and channel.is_open:
                    channel.basic_qos(prefetch_count=self.prefetch - 1)
                    consumers.append(channel.basic_consume(f"skald.{self.service}", handle))
                if channel.is_closed or len(channel.consumer_tags) < len(consumers):
                    raise pika.exceptions.ConsumerCancelled("the broker has cancelled a consumer")
