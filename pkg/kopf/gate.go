package kopf

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

// A gate keeps the workers of all kinds from starting until the indexes of all kinds are complete: so
// no worker has to wait for that, and there can be more objects than workers (SE-43).
type gate struct {
	mu         sync.Mutex
	incomplete map[string]bool // kinds with indexes that are not complete yet
	open       chan struct{}
}

func newGate(kinds []engine.Kind) *gate {
	g := &gate{incomplete: map[string]bool{}, open: make(chan struct{})}
	for _, kind := range kinds {
		if len(kind.Indexes.IDs()) > 0 {
			g.incomplete[kind.Name] = true
		}
	}
	g.complete("")
	return g
}

func (g *gate) complete(kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.incomplete, kind)
	select {
	case <-g.open:
	default:
		if len(g.incomplete) == 0 {
			close(g.open)
		}
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// around tells the gate when a source is complete: when all that was listed has been shown to the indexes.
func (g *gate) notify(kind string, s source.SyncingSource, passed func(context.Context)) source.SyncingSource {
	return &syncNotifier{s, func(ctx context.Context) { passed(ctx); g.complete(kind) }}
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

// closed is a source that is complete when the gate is open. It has no events.
type gateSource struct {
	gate   *gate
	passed func()
}

func (*gateSource) Start(context.Context, queue) error { return nil }
func (*gateSource) String() string                     { return "indexes" }

func (s *gateSource) WaitForSync(ctx context.Context) error {
	select {
	case <-s.gate.open:
		s.passed()
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // the operator is stopping
		}
		return errors.New("timed out waiting for the indexes: are their functions quick?")
	}
}
