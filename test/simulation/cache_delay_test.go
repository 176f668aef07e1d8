package simulation

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// lateCache is a cache that notifies its event handlers one second after it stores an object.
type lateCache struct{ cache.Cache }

func (c lateCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, opts...)
	return lateInformer{informer}, err
}

type lateInformer struct{ cache.Informer }

func (i lateInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(lateHandler{h})
}

func (i lateInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(lateHandler{h}, o)
}

type lateHandler struct {
	toolscache.ResourceEventHandler
}

func (h lateHandler) OnUpdate(old, now any) {
	wait(time.Second)
	h.ResourceEventHandler.OnUpdate(old, now)
}

// If an edit restarts a timer, the timer receives the edit, even if the worker has read the object before the event.
func TestTimers_ReceiveTheEditThatRestartsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		obj := &v1.Widget{Spec: v1.WidgetSpec{Color: "bad"}}
		obj.Namespace, obj.Name = namespace, "one"
		must(t, users.Create(t.Context(), obj))
		good := make(chan struct{}, 100)
		widgets := kopf.For(&v1.Widget{}).
			OnReconcile("beat", func(context.Context, *kopf.Request[widget]) error { return nil }, kopf.Interval(100*time.Millisecond)).
			Timer("judge", daemons.Timer{Interval: time.Minute}, func(_ context.Context, req *kopf.Request[widget]) error {
				if req.Object.Spec.Color == "bad" {
					return kopf.Permanent(errors.New("wrong color"))
				}
				good <- struct{}{}
				return nil
			})
		mgr, err := manager.New(config, manager.Options{
			Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
			NewCache: func(config *rest.Config, o cache.Options) (cache.Cache, error) {
				c, err := cache.New(config, o)
				return lateCache{c}, err
			},
		})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, widgets))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		wait(time.Minute)
		patch(t.Context(), t, users, obj, `{"spec":{"color":"good"}}`)
		wait(10 * time.Minute)
		if len(good) < 9 {
			t.Errorf("timer calls with the edited object = %d, want at least 9", len(good))
		}
		stop()
		must(t, <-ended)
	})
}

// The watch lags behind, and the engine has read a newer state from the API server. It calls no handler when the watch then delivers an older state. The
// removal of the last finalizer does not change the resource version.
func TestLaggingWatch_AfterAReadOfANewerState(t *testing.T) {
	for name, test := range map[string]struct {
		change func(ctx context.Context, t *testing.T, users client.Client, obj widget) // what the watch does not show
		want   []string
	}{
		"of the deletion": {
			func(ctx context.Context, t *testing.T, users client.Client, obj widget) {
				must(t, users.Delete(ctx, obj.DeepCopy()))
			},
			[]string{"create 1", "update 2", "failing 2", "delete 2"},
		},
		"of a reverted change": {
			func(ctx context.Context, t *testing.T, users client.Client, obj widget) {
				patch(ctx, t, users, obj, `{"spec":{"size":1}}`)
			},
			[]string{"create 1", "update 2", "failing 2", "update 1", "failing 1", "delete 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, scheme, users := newWorld(t)
				replica := config.Transport.(*apiserver.Server).Replica()
				behind := rest.CopyConfig(config)
				behind.Transport = replica
				calls, obj := &callLog{}, makeWidget(t, users, "one")
				widgets := basicHandlers(calls).OnUpdate("failing", func(_ context.Context, req *kopf.Request[widget]) error {
					calls.addf("failing %d", req.Object.Spec.Size)
					if req.Object.Spec.Size == 2 {
						return kopf.Temporary(errors.New("not yet"), 8*time.Second)
					}
					return nil
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					runUntil(ctx, t, behind, scheme, widgets)
				}()
				version := func() int64 {
					must(t, users.Get(ctx, client.ObjectKeyFromObject(obj), obj))
					number, err := strconv.ParseInt(obj.ResourceVersion, 10, 64)
					must(t, err)
					return number
				}
				wait(time.Minute)
				replica.LagAt(version())
				patch(ctx, t, users, obj, `{"spec":{"size":2}}`)
				replica.LagAt(version())
				wait(time.Second) // the handlers are called
				handled := version()
				test.change(ctx, t, users, obj)
				wait(10 * time.Second) // the engine reads the object from the API server
				replica.LagAt(handled)
				wait(time.Minute)
				replica.CatchUp()
				wait(time.Minute)
				must(t, client.IgnoreNotFound(users.Delete(ctx, obj.DeepCopy())))
				wait(time.Minute)
				stop()
				<-ended
				calls.expect(t, test.want...)
			})
		})
	}
}
