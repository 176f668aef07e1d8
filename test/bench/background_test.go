package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// background selects the background handler that each object has.
type background string

const (
	idleTimer     background = "idler"   // timer that changes nothing
	countingTimer background = "counter" // timer that increments status.size up to counterLimit
	daemon        background = "daemon"  // daemon that waits for its cancellation
)

// counterLimit is the value of status.size at which countingTimer stops changing the status. The creation handler sets
// status.size to 1, so counterLimit-1 calls change the status.
const counterLimit = 6

// addBackground registers the background handler that the role selects, if any.
func addBackground[T v1.Object](resource *kopf.Resource[T], r role, m *measurements) {
	switch r.Background {
	case idleTimer:
		// A random initial delay spreads the calls of all timers over the interval.
		delay := kopf.InitialDelayFunc(func(obj client.Object) time.Duration {
			delay := rand.N(r.Interval) //nolint:gosec // not used for security
			m.expectTimer(obj.GetName(), delay)
			return delay
		})
		resource.Timer("idler", r.Interval, func(_ context.Context, req *kopf.Request[T]) error {
			m.recordTimer(req.Object.GetName())
			m.expectTimer(req.Object.GetName(), r.Interval)
			return nil
		}, delay)
	case countingTimer:
		resource.Timer("counter", r.Interval, func(_ context.Context, req *kopf.Request[T]) error {
			if _, status := req.Object.Content(); status.Size < counterLimit {
				status.Size++
			}
			return nil
		})
	case daemon:
		resource.Daemon("daemon", func(ctx context.Context, req *kopf.Request[T]) error {
			m.running.Add(1)
			defer m.running.Add(-1)
			<-ctx.Done()
			m.recordCancellation(ctx, req.Object.GetUID())
			return nil
		})
	}
}
