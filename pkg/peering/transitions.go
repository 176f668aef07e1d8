package peering

import (
	"context"
	"maps"
	"slices"
)

// Transition is the beginning or the end of a pause.
type Transition struct {
	// Namespace is the affected namespace; "" if the operator serves the cluster.
	Namespace string
	// Paused is true at the beginning of a pause and false at its end.
	Paused bool
	// Why describes the cause of the new state for users.
	Why string
}

// Paused reports whether the operator is paused in a namespace, and the reason for the state. If the operator serves the cluster,
// Paused ignores the namespace. If the operator does not serve the namespace, or if the namespace is "" for a cluster-scoped object,
// Paused reports whether the operator is paused in any of its namespaces.
func (p *Peering) Paused(namespace string) (paused bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stateFor(namespace)
	return s.isPaused(), s.message
}

func (p *Peering) stateFor(namespace string) state {
	if p.done != nil && p.isShuttingDown() && !p.options.Standalone {
		return p.computeState(namespace) // no new work may start during shutdown, although subscribers receive no transition
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

// Changed returns a channel that is closed when the next pause begins or ends in any namespace. Call Changed before [Peering.Paused],
// so that no change is missed. Call it again after each change, because each channel reports only one change.
func (p *Peering) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Subscribe makes the Peering call handle whenever a pause begins or ends. The calls are sequential and in order. handle must not block
// and must not call cancel. It is not called for transitions before Subscribe, for the shutdown, or after cancel has returned.
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

// WaitForPeers waits until the peers are observed in all namespaces. Afterwards, [Peering.Paused] reflects the peers. It
// returns an error only if the context ends first.
func (p *Peering) WaitForPeers(ctx context.Context) error {
	select {
	case <-p.observed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
