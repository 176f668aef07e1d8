package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// A Gate keeps workers from starting until something is complete, such as the indexes of all kinds.
type Gate struct {
	mu         sync.Mutex
	incomplete map[string]bool // what is not complete yet
	open       chan struct{}
	hint       string // the error text if the gate does not open in time
}

// NewGate returns a gate that opens once everything in incomplete is complete. hint becomes the error text if that takes too long.
func NewGate(hint string, incomplete ...string) *Gate {
	g := &Gate{incomplete: map[string]bool{}, open: make(chan struct{}), hint: hint}
	for _, name := range incomplete {
		g.incomplete[name] = true
	}
	g.Complete("")
	return g
}

// NewIndexGate returns a gate that opens once the kinds' indexes are complete.
func NewIndexGate(kinds []engine.Kind) *Gate {
	var indexed []string
	for _, kind := range kinds {
		if len(kind.Indexes.IDs()) > 0 {
			indexed = append(indexed, kind.Name)
		}
	}
	return NewGate("timed out waiting for the indexes: check that the functions passed to IndexBy return quickly", indexed...)
}

// Complete records that one thing is complete. The gate opens after the last one.
func (g *Gate) Complete(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.incomplete, name); len(g.incomplete) == 0 && !g.IsOpen() {
		close(g.open)
	}
}

// IsOpen reports whether everything is complete.
func (g *Gate) IsOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// AfterSync wraps a kind's source. When the source has synced, the kind's index functions have been called for all listed objects, so the
// wrapper calls synced and records the kind's indexes as complete.
func (g *Gate) AfterSync(kind string, s source.SyncingSource, synced func(context.Context)) source.SyncingSource {
	return &syncNotifier{s, func(ctx context.Context) { synced(ctx); g.Complete(kind) }}
}

type syncNotifier struct {
	source.SyncingSource
	synced func(context.Context)
}

func (n *syncNotifier) String() string { return fmt.Sprint(n.SyncingSource) }

func (n *syncNotifier) WaitForSync(ctx context.Context) error {
	if err := n.SyncingSource.WaitForSync(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		n.synced(ctx)
	}
	return nil
}

// BeforeStart returns a source that calls a function when it starts.
func BeforeStart(s source.SyncingSource, starting func()) source.SyncingSource {
	return &startNotifier{s, starting}
}

type startNotifier struct {
	source.SyncingSource
	starting func()
}

func (n *startNotifier) String() string { return fmt.Sprint(n.SyncingSource) }

func (n *startNotifier) Start(ctx context.Context, q queue) error {
	n.starting()
	return n.SyncingSource.Start(ctx, q)
}

// AfterGates returns a source without events that syncs once the gates are open, and then calls synced.
func AfterGates(synced func(), gates ...*Gate) source.SyncingSource {
	return &gateSource{gates, synced}
}

type gateSource struct {
	gates  []*Gate
	synced func()
}

func (*gateSource) Start(context.Context, queue) error { return nil }
func (*gateSource) String() string                     { return "indexes" }

func (s *gateSource) WaitForSync(ctx context.Context) error {
	for _, gate := range s.gates {
		select {
		case <-gate.open:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil // the operator is stopping
			}
			return errors.New(gate.hint)
		}
	}
	s.synced()
	return nil
}
