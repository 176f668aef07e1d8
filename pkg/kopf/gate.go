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

// A gate delays the start of all workers until the indexes of all kinds are complete.
type gate struct {
	mu         sync.Mutex
	incomplete map[string]bool // kinds with indexes that are not complete yet
	open       chan struct{}
	hint       string // the text of the error if the gate does not open in time
}

func newGate(kinds []engine.Kind) *gate {
	g := &gate{
		incomplete: map[string]bool{}, open: make(chan struct{}),
		hint: "timed out waiting for the indexes: check that the functions of IndexBy return quickly",
	}
	for _, kind := range kinds {
		if len(kind.Indexes.IDs()) > 0 {
			g.incomplete[kind.Name] = true
		}
	}
	g.complete("")
	return g
}

// complete records that the indexes of a kind are complete, and opens the gate after the last one.
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

// notify wraps the source of a kind. When the source has synced, the index functions of the kind have been called for all listed objects. The
// wrapper then calls synced, and records that the indexes of the kind are complete.
func (g *gate) notify(kind string, s source.SyncingSource, synced func(context.Context)) source.SyncingSource {
	return &syncNotifier{s, func(ctx context.Context) { synced(ctx); g.complete(kind) }}
}

// A syncNotifier calls a function when its source has synced.
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

// A startNotifier calls a function when its source starts.
type startNotifier struct {
	source.SyncingSource
	starting func()
}

func (n *startNotifier) String() string { return fmt.Sprint(n.SyncingSource) }

func (n *startNotifier) Start(ctx context.Context, q queue) error {
	n.starting()
	return n.SyncingSource.Start(ctx, q)
}

// A gateSource is a source without events. It has synced when the gates are open, and then calls synced.
type gateSource struct {
	gates  []*gate
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
