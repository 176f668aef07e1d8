package main

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// books are what the program is about: who has which databases. Its operators keep them, and it answers from them.
type books struct {
	mu    sync.Mutex
	lines map[string]map[string]bool // by teams, by databases
}

func (b *books) add(team string) kopf.Handler[Object] {
	return func(ctx context.Context, req *Request) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.lines == nil {
			b.lines = map[string]map[string]bool{}
		}
		if b.lines[team] == nil {
			b.lines[team] = map[string]bool{}
		}
		b.lines[team][req.Object.GetName()] = true
		log.FromContext(ctx).Info("Booked", "why", req.Reason)
		return nil
	}
}

func (b *books) strike(team string) kopf.Handler[Object] {
	return func(ctx context.Context, req *Request) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.lines[team], req.Object.GetName())
		log.FromContext(ctx).Info("Struck out")
		return nil
	}
}

func (b *books) of(team string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.lines[team]))
}
