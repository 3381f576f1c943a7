"""The service `payments` of the order saga in Python, in the place of payment_service: scripts/demo.sh --payments python."""

import logging
from pathlib import Path
from typing import Any

import skald

TABLES = Path(__file__).resolve().parent.parent / "sql" / "payments.sql"

payments = skald.Participant("payments")


def note_charge(ctx: skald.Context, order: dict[str, Any], kind: str) -> None:
    ctx.sql("INSERT INTO charge (order_id, customer, cents, kind) VALUES (%s, %s, %s, %s)",
            (order["id"], order["customer"], order["cents"], kind))


@payments.compensatable("place-order", "charge-payment")
def charge(ctx: skald.Context, order: dict[str, Any]) -> None:
    paid = ctx.sql("UPDATE wallet SET cents = cents - %s WHERE customer = %s AND cents >= %s",
                   (order["cents"], order["customer"], order["cents"]))
    if paid.rowcount == 0:
        raise skald.Reject("insufficient funds")
    note_charge(ctx, order, "charge")


@charge.compensation
def refund(ctx: skald.Context, order: dict[str, Any]) -> None:
    ctx.sql("UPDATE wallet SET cents = cents + %s WHERE customer = %s", (order["cents"], order["customer"]))
    note_charge(ctx, order, "refund")


def make_tables() -> None:
    with payments.connect().transaction():
        payments.connect().execute("SELECT pg_advisory_xact_lock(1)")
        row = payments.connect().execute("SELECT to_regclass('wallet') IS NULL").fetchone()
        if row and row[0]:
            payments.connect().execute(TABLES.read_text(encoding="utf-8"))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    make_tables()
    payments.run()
