// The service `payments` of the order saga in Go, in the place of payment_service: scripts/demo.sh --payments go.
package main

import (
	"context"
	"log"
	"os"

	"skald.local/skald"
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

func charge(ctx *skald.Context, o order) error {
	paid, err := ctx.Tx.Exec(ctx, "UPDATE wallet SET cents = cents - $2 WHERE customer = $1 AND cents >= $2", o.Customer, o.Cents)
	if err != nil {
		return err
	}
	if paid.RowsAffected() == 0 {
		return skald.Reject("insufficient funds")
	}
	return noteCharge(ctx, o, "charge")
}

func refund(ctx *skald.Context, o order) error {
	if _, err := ctx.Tx.Exec(ctx, "UPDATE wallet SET cents = cents + $2 WHERE customer = $1", o.Customer, o.Cents); err != nil {
		return err
	}
	return noteCharge(ctx, o, "refund")
}

func noteCharge(ctx *skald.Context, o order, kind string) error {
	_, err := ctx.Tx.Exec(ctx, "INSERT INTO charge (order_id, customer, cents, kind) VALUES ($1, $2, $3, $4)", o.ID, o.Customer, o.Cents, kind)
	return err
}

func makeTables(ctx context.Context, payments *skald.Participant) error {
	var missing bool
	err := payments.Pool.QueryRow(ctx, "SELECT to_regclass('wallet') IS NULL").Scan(&missing)
	if err != nil || !missing {
		return err
	}
	tables, err := os.ReadFile(os.Getenv("PAYMENTS_TABLES"))
	if err == nil {
		_, err = payments.Pool.Exec(ctx, string(tables))
	}
	return err
}

func main() {
	ctx, payments := context.Background(), skald.New("payments")
	skald.Compensatable(payments, "place-order", "charge-payment", charge, refund, skald.Options{})
	err := payments.Connect(ctx)
	if err == nil {
		err = makeTables(ctx, payments)
	}
	if err == nil {
		err = payments.Run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
