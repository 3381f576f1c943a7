"""What steps leave open on their connection, which waits for it otherwise for ever."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from payments_shop import Shop, message, shop, template, url  # noqa: F401

import skald

LEFT: list[Any] = []


def leave_stream(ctx: skald.Context, order: Any) -> None:
    LEFT.append(ctx.connection.cursor().stream("SELECT generate_series(1, 100000)"))
    next(LEFT[-1])


def leave_copy(ctx: skald.Context, order: Any) -> None:
    LEFT.append(ctx.connection.cursor().copy("COPY wallet FROM STDIN"))
    LEFT[-1].__enter__()


def leave_mistaken_copy(ctx: skald.Context, order: Any) -> None:
    with pytest.raises(psycopg.ProgrammingError):
        ctx.sql("COPY wallet FROM STDIN")





@pytest.mark.parametrize("leave", [leave_stream, leave_copy, leave_mistaken_copy])
def test_what_a_step_leaves_open_is_its_fault_and_keeps_nobody(shop: Shop, monkeypatch: pytest.MonkeyPatch, leave: Any) -> None:
    def raises(error: Exception) -> Any:
        def act(ctx: skald.Context, order: Any) -> None:
            leave(ctx, order)
            raise error

        return act

    monkeypatch.setattr(skald, "LEFT_MAX", 0.1)
    shop.raises = [leave, raises(skald.Reject("no money")), raises(ValueError("broke"))]
    assert [shop.participant.process(message("charge", 2, key=key)) for key in "abcd"] == [
        "step.failed", "step.rejected", "step.failed", "step.completed"]
    assert [error.split(":")[0] for error, in shop.c.execute("SELECT error FROM skald.idempotency WHERE status = 'retrying' ORDER BY key")] == [
        "LeftOpen", "ValueError"]
    assert (shop.cents, len(shop.ran)) == (90, 4)
    LEFT.clear()
