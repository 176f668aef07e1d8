package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// A background is the kind of background handler that each object has.
type background string

const (
	idler   background = "idler"   // a timer that changes nothing
	counter background = "counter" // a timer that counts in the status up to a limit
	daemon  background = "daemon"  // a daemon that waits for its cancellation
)

// enough is the limit of counters: all calls except the last one change the status.
const enough = 6

// addBackground adds the background handler of the role.
func addBackground[T v1.Object](resource *kopf.Resource[T], r role, n *notes) {
	switch r.Background {
	case idler:
		// The first calls are distributed over an interval, so later calls are, too.
		delay := kopf.InitialDelayFunc(func(obj client.Object) time.Duration {
			delay := rand.N(r.Interval) //nolint:gosec // chance, not secrecy
			n.expect(obj.GetName(), delay)
			return delay
		})
		resource.Timer("idler", r.Interval, func(_ context.Context, req *kopf.Request[T]) error {
			n.called(req.Object.GetName())
			n.expect(req.Object.GetName(), r.Interval)
			return nil
		}, delay)
	case counter:
		resource.Timer("counter", r.Interval, func(_ context.Context, req *kopf.Request[T]) error {
			if _, status := req.Object.Content(); status.Size < enough {
				status.Size++
			}
			return nil
		})
	case daemon:
		resource.Daemon("daemon", func(ctx context.Context, req *kopf.Request[T]) error {
			n.running.Add(1)
			defer n.running.Add(-1)
			<-ctx.Done()
			n.cancelled(ctx, req.Object.GetUID())
			return nil
		})
	}
}
