"""The participant of docs/conform.md, with sdk/python: skald conform --service payments --command "python3 participant.py"."""

import sys
from datetime import timedelta
from typing import Any

import skald

QUICK = {"attempts": 3, "first_ms": 50, "longest_ms": 200}

participant = skald.Participant(sys.argv[1] if len(sys.argv) > 1 else "payments")


def work(ctx: skald.Context, data: dict[str, Any], step: str) -> None:
    ctx.sql("INSERT INTO conform.ledger (scope, saga, step, cents) VALUES (%s, %s, %s, %s)", (ctx.scope, ctx.saga, step, data["cents"]))
    if step == "ship":
        ctx.publish("conform.events", "shipped", {"saga": ctx.saga})
    if data["fails_at"] == step and ctx.attempt <= data["fails"]:
        raise RuntimeError("as the data say")
    if data["rejects_at"] == step:
        raise skald.Reject("as the data say")
    if data["waits_at"] == step and not ctx.sql("SELECT FROM conform.gate WHERE scope = %s AND saga = %s", (ctx.scope, ctx.saga)).rowcount:
        raise skald.Snooze(timedelta(milliseconds=100))
    if step == "charge" and data["marks"]:
        data["receipt"] = ctx.saga


@participant.compensatable("conform", "charge", **QUICK)
def charge(ctx: skald.Context, data: dict[str, Any]) -> None:
    work(ctx, data, "charge")


@charge.compensation
def refund(ctx: skald.Context, data: dict[str, Any]) -> None:
    work(ctx, data, "charge.compensate")


@participant.pivot("conform", "ship", **QUICK)
def ship(ctx: skald.Context, data: dict[str, Any]) -> None:
    work(ctx, data, "ship")


@participant.retriable("conform", "pay-out", **QUICK)
def pay_out(ctx: skald.Context, data: dict[str, Any]) -> None:
    work(ctx, data, "pay-out")


participant.run()
