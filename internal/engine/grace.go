package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// gracePeriod is how long background work without a CancellationTimeout may take to stop when the operator is stopping. It may
// have something to write then.
const gracePeriod = daemons.DefaultGracePeriod + writeTimeout

// A grace is the time that one invocation of background work has, after its context has ended, to store its last change: until the
// supervisor abandons it.
type grace struct {
	context context.Context //nolint:containedctx // its end is what counts, whichever context a write is called with
	period  time.Duration
	since   atomic.Pointer[time.Time] // nil: the context has not ended
	end     func() bool
}

func newGrace(ctx context.Context, b *invoke.BackgroundHandler) *grace {
	g := &grace{context: ctx, period: gracePeriod}
	if timeout := b.Task.CancellationTimeout; timeout != nil {
		g.period = *timeout
		if backoff := b.Task.CancellationBackoff; backoff != nil {
			g.period += *backoff
		}
	}
	g.end = context.AfterFunc(ctx, func() { g.since.CompareAndSwap(nil, new(time.Now())) })
	return g
}

// left returns how much of the time is left. There is none for a context of a handler that has ended before that of the invocation.
func (g *grace) left() time.Duration {
	if g.context.Err() == nil {
		return 0
	}
	g.since.CompareAndSwap(nil, new(time.Now()))
	return g.period - time.Since(*g.since.Load())
}
