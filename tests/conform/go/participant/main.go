// The participant of docs/conform.md, with sdk/go.
package main

import (
	"context"
	"errors"
	"log"
	"time"

	"skald.local/skald"
)

type order struct {
	Cents     int64  `json:"cents"`
	RejectsAt string `json:"rejects_at"`
	FailsAt   string `json:"fails_at"`
	Fails     int    `json:"fails"`
	WaitsAt   string `json:"waits_at"`
	Marks     bool   `json:"marks"`
}

func work(step string) skald.Work[order] {
	return func(ctx *skald.Context, data order) error {
		if _, err := ctx.Tx.Exec(ctx, "INSERT INTO conform.ledger (scope, saga, step, cents) VALUES ($1, $2, $3, $4)",
			ctx.Scope, ctx.Saga, step, data.Cents); err != nil {
			return err
		}
		if step == "ship" {
			if err := ctx.Publish("conform.events", "shipped", map[string]string{"saga": ctx.Saga}, "keep"); err != nil {
				return err
			}
		}
		if data.FailsAt == step && ctx.Attempt <= data.Fails {
			return errors.New("as the data say")
		}
		if data.RejectsAt == step {
			return skald.Reject("as the data say")
		}
		if data.WaitsAt == step {
			opened, err := ctx.Tx.Exec(ctx, "SELECT FROM conform.gate WHERE scope = $1 AND saga = $2", ctx.Scope, ctx.Saga)
			if err != nil {
				return err
			}
			if opened.RowsAffected() == 0 {
				return skald.Snooze(100 * time.Millisecond)
			}
		}
		if step == "charge" && data.Marks {
			ctx.Set("receipt", ctx.Saga)
		}
		return nil
	}
}

func main() {
	first, longest := 50, 200
	quick := skald.Options{Attempts: 3, FirstMS: &first, LongestMS: &longest}
	p := skald.New("payments")
	skald.Compensatable(p, "conform", "charge", work("charge"), work("charge.compensate"), quick)
	skald.Pivot(p, "conform", "ship", work("ship"), quick)
	skald.Retriable(p, "conform", "pay-out", work("pay-out"), quick)
	if err := p.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
