package skald

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilTold has a context that ends at SIGTERM or SIGINT, and what is to be called last. A second signal ends the process, as if none were
// handled: a step may hang.
func (p *Participant) untilTold(parent context.Context) (context.Context, func()) {
	ctx, end := context.WithCancel(parent)
	told, over, heeded := make(chan os.Signal, 1), make(chan bool), make(chan bool)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		defer close(heeded)
		defer signal.Stop(told)
		select {
		case number := <-told:
			signal.Stop(told)
			end()
			p.Log("%v: %s waits for the steps under way; a second signal ends it at once", number, p.Service)
		case <-over: // and not at the end of the parent: steps may be under way yet
		}
	}()
	return ctx, func() { end(); close(over); <-heeded }
}
