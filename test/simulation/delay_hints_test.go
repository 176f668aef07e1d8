package simulation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// For every kind of handler, the engine logs a delay without a unit once per handler, regardless of the number of objects.
func TestHints_DelayWithoutUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		for _, name := range []string{"one", "two"} {
			obj := &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}
			obj.Namespace, obj.Name = namespace, name
			must(t, users.Create(t.Context(), obj))
		}
		lines := make(chan string, 100_000)
		logger := funcr.New(func(_, line string) {
			if strings.Contains(line, "is very short") {
				lines <- line
			}
		}, funcr.Options{})
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Logger: logger})
		must(t, err)
		// hasty returns a few temporary errors with a delay of 5 nanoseconds.
		hasty := func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number < 3 {
				return kopf.Temporary(errors.New("not yet"), 5)
			}
			return nil
		}
		asked := map[client.ObjectKey]int{}
		reconciler := reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			if asked[req.NamespacedName]++; asked[req.NamespacedName] < 4 {
				return reconcile.Result{RequeueAfter: 5}, nil
			}
			return reconcile.Result{}, nil
		})
		started := 0
		must(t, kopf.SetupWithManager(mgr, kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("cause", hasty).
			OnCreate("parent", func(_ context.Context, req *kopf.Request[widget]) error {
				req.Sub("first", hasty)
				req.Sub("second", hasty)
				return nil
			}).
			OnReconcile("level", hasty).
			OnReconcile("reconciler", kopf.FromReconciler[widget](reconciler)).
			Daemon("daemon", daemons.Daemon{}, hasty).
			Timer("timer", daemons.Timer{Interval: time.Hour}, hasty).
			OnCreate("right", func(_ context.Context, req *kopf.Request[widget]) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), 5*time.Second)
				}
				return nil
			}),
			kopf.OnStartup("startup", func(context.Context) error {
				if started++; started < 3 {
					return kopf.Temporary(errors.New("not yet"), 5)
				}
				return nil
			})))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		wait(time.Minute)
		stop()
		must(t, <-ended)
		close(lines)
		got := map[string]int{}
		for line := range lines {
			_, rest, _ := strings.Cut(line, `"handler"="`)
			id, _, _ := strings.Cut(rest, `"`)
			id, _, _ = strings.Cut(id, "/")
			got[id]++
		}
		for _, id := range []string{"cause", "parent", "level", "reconciler", "daemon", "timer", "startup"} {
			if got[id] != 1 {
				t.Errorf("warnings for handler %q = %d, want 1", id, got[id])
			}
		}
		if len(got) != 7 {
			t.Errorf("handlers with warnings = %v, want 7", got)
		}
	})
}
