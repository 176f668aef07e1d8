package peering

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// How often is asked whether a kind is served by now: soon if nothing goes on without it.
	askAgain     = 30 * time.Second
	askAgainSoon = 2 * time.Second

	firstRetry, lastRetry = time.Second, 10 * time.Second
)

// scout finds out whether a group serves the peering objects, and has an eye on them while it does.
func (p *Peering) scout(ctx context.Context, group string, self Self) {
	var pause backoff
	for ctx.Err() == nil {
		kind, err := p.api.kind(ctx, group, len(p.options.Namespaces) > 0)
		switch {
		case err != nil:
			p.reportAll(group, func(s *standing) {
				if !s.looked { // later on, it changes nothing
					s.err = err
				}
			})
			pause.wait(ctx)
			continue
		case kind == nil:
			p.reportAll(group, func(s *standing) { *s = standing{looked: true} })
			wait(ctx, p.askAgain())
		default:
			p.reportAll(group, func(s *standing) { s.served = true })
			if err := p.attend(ctx, *kind, self); err != nil {
				p.log.V(1).Info("Asking again what is served", "group", group, "why", err.Error())
				pause.wait(ctx)
				continue
			}
		}
		pause.reset()
	}
}

func (p *Peering) askAgain() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.standings {
		if s.served || !p.options.Mandatory {
			return askAgain
		}
	}
	return askAgainSoon
}

// attend is present at the objects of all namespaces until the context ends. The error is that the kind is not
// served any more.
func (p *Peering) attend(ctx context.Context, k kind, self Self) error {
	members, ctx := errgroup.WithContext(ctx)
	for _, namespace := range p.options.places() {
		members.Go(func() error { return newMember(p, k, namespace, self).run(ctx) })
	}
	return members.Wait()
}

func (p *Peering) reportAll(group string, change func(*standing)) {
	for _, namespace := range p.options.places() {
		p.report(place{group, namespace}, change)
	}
}

func unserved(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errUnserved) }

// A backoff has waits that double, up to a limit.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstRetry), lastRetry)
	return b.last
}

func (b *backoff) reset() { b.last = 0 }

func (b *backoff) wait(ctx context.Context) { wait(ctx, b.next()) }

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
