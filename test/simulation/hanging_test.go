package simulation

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const (
	crowd   = 200 // number of objects
	hanging = crowd / 100
)

// B-05: if 1 % of the objects block their workers, the throughput of the other objects decreases by less than 10 %.
func TestHangingObjects_DoNotSlowDownOthers(t *testing.T) {
	without, with := handleCrowd(t, 0), handleCrowd(t, hanging)
	t.Logf("time for all other objects = %s, and %s if %d of %d objects hang", without, with, hanging, crowd)
	if without <= 0 || with.Seconds()/(crowd-hanging) > 1.1*without.Seconds()/crowd {
		t.Errorf("%d of %d objects hang: time for the other objects = %s, without hanging objects %s", hanging, crowd, with, without)
	}
}

// handleCrowd returns the time until all objects are handled, except those that hang.
func handleCrowd(t *testing.T, hangs int) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, config := runtime.NewScheme(), simulated()
		must(t, v1.AddToScheme(scheme))
		users, err := client.New(config, client.Options{Scheme: scheme})
		must(t, err)
		for i := range crowd {
			obj := &v1.Widget{Spec: v1.WidgetSpec{Size: i}}
			obj.Namespace, obj.Name = namespace, fmt.Sprintf("w%d", i)
			must(t, users.Create(t.Context(), obj))
		}
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
		must(t, err)
		left, all := atomic.Int64{}, make(chan struct{})
		left.Store(crowd - int64(hangs))
		must(t, kopf.SetupWithManager(mgr, kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 32})).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[*v1.Widget]) error {
				if req.Object.Spec.Size < hangs {
					<-ctx.Done()
					return ctx.Err()
				}
				<-time.After(200 * time.Millisecond)
				if left.Add(-1) == 0 {
					close(all)
				}
				return nil
			})))
		ctx, stop := context.WithCancel(t.Context())
		ended, began := make(chan error, 1), time.Now()
		go func() { ended <- mgr.Start(ctx) }()
		<-all
		took = time.Since(began)
		stop()
		must(t, <-ended)
	})
	return took
}
