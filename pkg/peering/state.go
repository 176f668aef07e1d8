package peering

import (
	"context"
	"maps"
	"slices"
)

// A Transition is the beginning or the end of a pause.
type Transition struct {
	// Namespace that is paused or not; "" if the operator serves the cluster.
	Namespace string
	Paused    bool
	Why       string
}

// Paused tells whether the operator is paused in a namespace, and why, or why not. The namespace does not
// matter if the operator serves the cluster. If it serves namespaces, and this is none of them, or "" for an
// object of the cluster, it is paused there if it is paused anywhere.
func (p *Peering) Paused(namespace string) (paused bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.current(namespace)
	return s.paused(), s.why
}

func (p *Peering) current(namespace string) state {
	if p.done != nil && p.ended() && !p.options.Standalone {
		return p.assess(namespace) // nothing more is to begin, and nobody is told of it
	}
	if s, served := p.states[namespace]; served {
		return s
	}
	first := state{cause: -1}
	for _, served := range slices.Sorted(maps.Keys(p.states)) {
		s := p.states[served]
		if s.paused() {
			return s
		}
		if first.cause < 0 {
			first = s
		}
	}
	return first
}

// Changed is closed at the next beginning or end of a pause, anywhere. Take it before asking [Peering.Paused], then
// nothing is missed; and take a new one each time.
func (p *Peering) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Subscribe has a function called at each beginning and end of a pause, in order, one call at a time. It must not
// block, nor cancel itself. No call is made for what has been before, none for the shutdown, and none after cancel has
// returned.
func (p *Peering) Subscribe(tell func(Transition)) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.nextID
	p.nextID++
	p.subscribers[id] = tell
	return func() {
		p.reporting.Lock() // a call that is being made comes to its end
		defer p.reporting.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subscribers, id)
	}
}

// Looked waits for the first look everywhere: from then on, [Peering.Paused] tells what is true of the peers. The error
// is that of the context.
func (p *Peering) Looked(ctx context.Context) error {
	select {
	case <-p.looked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
