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
	mu     sync.Mutex
	awaits map[string]bool // kinds with indexes that are not complete yet
	open   chan struct{}
}

func newGate(kinds []engine.Kind) *gate {
	g := &gate{awaits: map[string]bool{}, open: make(chan struct{})}
	for _, kind := range kinds {
		if len(kind.Indexes.IDs()) > 0 {
			g.awaits[kind.Name] = true
		}
	}
	g.pass("")
	return g
}

func (g *gate) pass(kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.awaits, kind)
	select {
	case <-g.open:
	default:
		if len(g.awaits) == 0 {
			close(g.open)
		}
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// around tells the gate when a source is complete: when all that was listed has been shown to the indexes.
func (g *gate) around(kind string, s source.SyncingSource, passed func(context.Context)) source.SyncingSource {
	return &telling{s, func(ctx context.Context) { passed(ctx); g.pass(kind) }}
}

type telling struct {
	source.SyncingSource
	synced func(context.Context)
}

func (t *telling) String() string { return fmt.Sprint(t.SyncingSource) }

func (t *telling) WaitForSync(ctx context.Context) error {
	if err := t.SyncingSource.WaitForSync(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		t.synced(ctx)
	}
	return nil
}

// closed is a source that is complete when the gate is open. It has no events.
type closed struct {
	gate   *gate
	passed func()
}

func (*closed) Start(context.Context, queue) error { return nil }
func (*closed) String() string                     { return "indexes" }

func (c *closed) WaitForSync(ctx context.Context) error {
	select {
	case <-c.gate.open:
		c.passed()
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // the operator is stopping
		}
		return errors.New("timed out waiting for the indexes: are their functions quick?")
	}
}
