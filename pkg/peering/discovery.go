package peering

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// discoveryInterval is how often the operator checks whether a missing kind is served now. If the peering object is mandatory and
	// neither group is served, mandatoryDiscoveryInterval applies.
	discoveryInterval          = 30 * time.Second
	mandatoryDiscoveryInterval = 2 * time.Second

	minRetryDelay, maxRetryDelay = time.Second, 10 * time.Second
)

// discover checks whether the API server serves the peering objects of a group, and runs members while it does.
func (p *Peering) discover(ctx context.Context, group string, self Self) {
	var pause retryBackoff
	for ctx.Err() == nil {
		kind, err := p.api.kind(ctx, group, len(p.options.Namespaces) > 0)
		switch {
		case err != nil:
			p.reportAll(group, func(s *status) {
				if !s.observed { // a failed discovery doesn't invalidate observed peers
					s.err = err
				}
			})
			pause.wait(ctx)
			continue
		case kind == nil:
			p.reportAll(group, func(s *status) { *s = status{observed: true} })
			wait(ctx, p.discoveryInterval())
		default:
			p.reportAll(group, func(s *status) { s.served = true })
			if err := p.runMembers(ctx, *kind, self); err != nil {
				p.log.V(1).Info("Discovering the kind again", "group", group, "reason", err.Error())
				pause.wait(ctx)
				continue
			}
		}
		pause.reset()
	}
}

func (p *Peering) discoveryInterval() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.statuses {
		if s.served || !p.options.Mandatory {
			return discoveryInterval
		}
	}
	return mandatoryDiscoveryInterval
}

// runMembers runs a member for each namespace until the context is cancelled. It returns an error if the API server no longer serves the
// kind in the same way.
func (p *Peering) runMembers(ctx context.Context, k kind, self Self) error {
	members, ctx := errgroup.WithContext(ctx)
	for _, namespace := range p.options.namespaces() {
		members.Go(func() error { return newMember(p, k, namespace, self).run(ctx) })
	}
	return members.Wait()
}

func (p *Peering) reportAll(group string, change func(*status)) {
	for _, namespace := range p.options.namespaces() {
		p.report(location{group, namespace}, change)
	}
}

func endedUnserved(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errUnserved) }

// retryBackoff doubles the delay between retries up to a limit.
type retryBackoff struct{ last time.Duration }

func (b *retryBackoff) next() time.Duration {
	b.last = min(max(2*b.last, minRetryDelay), maxRetryDelay)
	return b.last
}

func (b *retryBackoff) reset() { b.last = 0 }

func (b *retryBackoff) wait(ctx context.Context) { wait(ctx, b.next()) }

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
