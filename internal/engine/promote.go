package engine

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Priorities in the queue: what users change, before what is tried again, before what was listed at the
// start.
const (
	promoted = 1
	retrying = handler.LowPriority / 2
)

const (
	// promotionPause is how often those that wait get their share.
	promotionPause = time.Second
	// promotionAge is how long they have to have waited.
	promotionAge = 5 * time.Second
)

// Promoter is a source without events of its own. It lets nothing starve: every second, a few of those that
// have waited longest are put before all others, so that they get a share of the workers whatever else comes.
func (e *Engine) Promoter(workers int) source.Source { return &promoter{e, workers} }

type promoter struct {
	*Engine
	workers int
}

func (*promoter) String() string { return "promoter" }

// Start implements [source.Source].
func (p *promoter) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	go func() {
		tick := time.NewTicker(promotionPause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.Pulse() // for the metrics
				if !ok {
					continue // without priorities, nobody is passed over
				}
				for _, key := range p.memories.Longest(max(1, p.workers/4), promotionAge) {
					prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: new(promoted)}, reconcile.Request{NamespacedName: key})
				}
			}
		}
	}()
	return nil
}
