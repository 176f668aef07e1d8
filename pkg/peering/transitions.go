package peering

import (
	"context"
	"maps"
	"slices"
)

// Transition is the start or the end of a pause.
type Transition struct {
	// Namespace is the affected namespace; "" if the operator serves the cluster.
	Namespace string
	// Paused is true at the start of a pause and false at its end.
	Paused bool
	// Why explains the new state to users.
	Why string
}

// Paused reports whether the operator is paused in a namespace, and why or why not. If the operator serves the cluster, the namespace is
// ignored. If the operator doesn't serve the namespace, or if it is "" for a cluster-scoped object, Paused reports whether the operator is
// paused in any of its namespaces.
func (p *Peering) Paused(namespace string) (paused bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stateFor(namespace)
	return s.isPaused(), s.message
}

func (p *Peering) stateFor(namespace string) state {
	if p.done != nil && p.isShuttingDown() && !p.options.Standalone {
		return p.computeState(namespace) // no new work may start during shutdown, although subscribers don't receive a transition
	}
	if s, served := p.states[namespace]; served {
		return s
	}
	first := state{phase: -1}
	for _, served := range slices.Sorted(maps.Keys(p.states)) {
		s := p.states[served]
		if s.isPaused() {
			return s
		}
		if first.phase < 0 {
			first = s
		}
	}
	return first
}

// Changed returns a channel that is closed when the next pause starts or ends in any namespace. Call it before [Peering.Paused], so that
// you don't miss a change. Call it again after each change, because each channel reports only one.
func (p *Peering) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Subscribe makes the Peering call handle whenever a pause starts or ends. The calls are sequential and in order. handle must not block and
// must not call cancel. It isn't called for transitions before Subscribe, for the shutdown, or after cancel has returned.
func (p *Peering) Subscribe(handle func(Transition)) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.nextID
	p.nextID++
	p.subscribers[id] = handle
	return func() {
		p.reportMu.Lock() // wait for a running call
		defer p.reportMu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subscribers, id)
	}
}

// WaitForPeers waits until the peers are observed in all namespaces, so that [Peering.Paused] reflects them. It returns an error only if
// the context is cancelled first.
func (p *Peering) WaitForPeers(ctx context.Context) error {
	select {
	case <-p.observed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
