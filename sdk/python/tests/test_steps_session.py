"""What a step's session has: by its address and environment, by the driver, by the step before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from payments_shop import Shop, charge_message, message, shop, template, url  # noqa: F401
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

import skald


def test_the_rows_that_a_step_has_asked_for_are_its_own(shop: Shop) -> None:
    def rows(ctx: skald.Context, order: Any) -> None:
        ctx.connection.row_factory = dict_row

    def rejects(ctx: skald.Context, order: Any) -> None:
        rows(ctx, order)
        raise skald.Reject("no money")

    shop.raises = [rows, rejects]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "abc"] == ["step.completed", "step.rejected", "step.completed"]


def test_what_a_step_sets_in_the_driver_is_its_own(shop: Shop) -> None:
    def sets(ctx: skald.Context, order: Any) -> None:
        ctx.connection.cursor_factory, ctx.connection.server_cursor_factory = psycopg.RawCursor, psycopg.RawServerCursor
        ctx.connection.adapters.register_loader("int4", TextLoader)
        ctx.connection.prepare_threshold, ctx.connection.prepared_max = None, 1
        ctx.connection.add_notice_handler(heard.append)
        ctx.connection.add_notify_handler(heard.append)

    def rejects(ctx: skald.Context, order: Any) -> None:
        sets(ctx, order)
        raise skald.Reject("no money")

    def reads(ctx: skald.Context, order: Any) -> None:
        assert ctx.connection.server_cursor_factory is psycopg.ServerCursor
        assert (ctx.connection.prepare_threshold, ctx.connection.prepared_max) == (5, 100)
        read.append((ctx.attempt, ctx.sql("SELECT 1").fetchone()))
        ctx.sql("DO $$ BEGIN RAISE NOTICE 'x'; END $$")

    read: list[Any] = []
    heard: list[Any] = []
    shop.raises = [sets, reads, rejects, reads]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "abcd"] == ["step.completed"] * 2 + ["step.rejected", "step.completed"]
    assert (read, heard) == ([(1, (1,))] * 2, [])
    assert not shop.participant.connect()._notify_handlers


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_rejection_says_what_it_likes_in_any_clients_encoding(shop: Shop, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    shop.raises = [skald.Reject("zu wenig \u20ac"), skald.Reject("zu wenig \u20ac")]
    assert shop.participant.process(charge_message) == "step.rejected"
    shop.participant.connect().close()
    shop.participant.database_url += f"?client_encoding={encoding}"
    assert shop.participant.process(message("charge", 2, key="a")) == "step.rejected"
    assert shop.one("SELECT string_agg(DISTINCT error, ',') FROM skald.idempotency") == "zu wenig \u20ac"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_the_encoding_that_a_step_has_left_is_not_the_next_ones(shop: Shop, encoding: str) -> None:
    shop.raises = [lambda ctx, order: ctx.sql(f"SET client_encoding = {encoding}"), skald.Reject("zu wenig \u20ac")]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "abc"] == ["step.completed", "step.rejected", "step.completed"]
    assert shop.one("SELECT string_agg(error, '') FROM skald.idempotency") == "zu wenig \u20ac"


def test_a_step_ends_as_ever_where_the_default_isolation_is_stricter(shop: Shop) -> None:
    shop.participant.database_url += "?options=-c%20default_transaction_isolation%3Dserializable"
    shop.raises = [skald.Reject("no money"), skald.Snooze(timedelta(hours=1)), ValueError("broke"), skald.Malformed("no customer")]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "abcd"] == [
        "step.rejected", "step.snoozed", "step.failed", "step.parked"]


def test_a_step_has_its_limits_whatever_its_session_has(shop: Shop) -> None:
    limits = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')"
    seen: list[Any] = []
    shop.participant.database_url += "?options=-c%20lock_timeout%3D7h%20-c%20statement_timeout%3D0%20-c%20idle_in_transaction_session_timeout%3D1h"
    shop.raises = [lambda ctx, order: seen.append(ctx.sql(limits).fetchone())]
    assert shop.participant.connect().execute(limits).fetchone() == ("7h", "0", "1h")
    assert shop.participant.process(charge_message) == "step.completed"
    assert seen == [("5s", "30s", "30s")]
