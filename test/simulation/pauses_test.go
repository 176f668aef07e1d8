package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// withPeerings adds an API server for peering objects.
func withPeerings(config *rest.Config) *rest.Config {
	group := schema.GroupVersion{Group: peeringv1.Group, Version: peeringv1.Version}
	peers := apiserver.New(apiserver.Resource{GroupVersion: group, Kind: "KopfPeering", Plural: peeringv1.NamespacedPlural})
	others := config.Transport
	config = rest.CopyConfig(config)
	config.Transport = transport(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/"+peeringv1.Group) {
			return peers.RoundTrip(r)
		}
		return others.RoundTrip(r)
	})
	return config
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// PEER-50, PEER-51, PEER-53, B-12: a busy operator is paused at random times. No handler starts during a pause. After the pause, no change is lost,
// and daemons and timers restart once.
func TestPauses_OfABusyOperator(t *testing.T) {
	const crowd = 6
	var pauses, starts atomic.Int64
	for seed := range seeds(6) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a repeatable sequence, not used for security
			var luck sync.Mutex
			roll := func(below int64) int64 { luck.Lock(); defer luck.Unlock(); return dice.Int64N(below) }
			pause := func(atMost time.Duration) time.Duration { return time.Duration(roll(int64(atMost))) }
			config, scheme, users := newWorld(t)
			config = withPeerings(config)
			meeting := &unstructured.Unstructured{}
			meeting.SetGroupVersionKind(schema.GroupVersionKind{Group: peeringv1.Group, Version: peeringv1.Version, Kind: "KopfPeering"})
			meeting.SetNamespace(namespace)
			meeting.SetName("default")
			other, err := client.New(config, client.Options{Scheme: scheme})
			must(t, err)
			must(t, other.Create(t.Context(), meeting))
			writes := func(status string) {
				body := fmt.Sprintf(`{"status":{"laptop":%s}}`, status)
				must(t, other.Patch(t.Context(), meeting.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body))))
				synctest.Wait() // the operator has received the record
			}

			var pausingRecord atomic.Bool
			var mu sync.Mutex
			last, running, ticks := map[string]int{}, map[string]int{}, map[string]time.Time{}
			begins := func(what string) {
				starts.Add(1)
				if pausingRecord.Load() {
					t.Errorf("seed %d: %s was started during a pause", seed, what)
				}
			}
			update := func(id string) kopf.Handler[widget] {
				return func(ctx context.Context, req *kopf.Request[widget]) error {
					begins(id)
					fails := roll(3) == 0
					select {
					case <-time.After(pause(time.Second)):
					case <-ctx.Done():
					}
					if fails {
						return kopf.Temporary(errors.New("no luck"), time.Second)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, item := range req.Diff {
						if strings.HasSuffix(item.Path.String(), "size") {
							last[id+req.Object.Name] = int(item.New.(int64))
						}
					}
					return nil
				}
			}
			widgets := kopf.For(&v1.Widget{}).
				OnUpdate("first", update("first")).OnUpdate("second", update("second")).
				OnResume("resume", func(context.Context, *kopf.Request[widget]) error {
					t.Errorf("seed %d: a resume handler was called, but no object was handled before", seed)
					return nil
				}).
				Timer("timer", daemons.Timer{Interval: 700 * time.Millisecond}, func(_ context.Context, req *kopf.Request[widget]) error {
					begins("timer")
					mu.Lock()
					defer mu.Unlock()
					ticks[req.Object.Name] = time.Now()
					return nil
				}).
				Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
					begins("daemon")
					mu.Lock()
					if running[req.Object.Name]++; running[req.Object.Name] > 1 {
						t.Errorf("seed %d: running daemons of %s = 2, want 1", seed, req.Object.Name)
					}
					mu.Unlock()
					<-ctx.Done()
					mu.Lock()
					running[req.Object.Name]--
					mu.Unlock()
					return nil
				})
			size := 1
			var objects []widget
			for i := range crowd {
				objects = append(objects, makeWidget(t, users, fmt.Sprint("w", i)))
			}
			ended := make(chan lifetime, 1)
			go func() {
				ended <- runFor(t, config, scheme, 10*time.Minute, widgets, kopf.WithPeering(peering.Options{
					Namespaces: []string{namespace}, Identity: "operator", Mandatory: true,
				}))
			}()
			<-time.After(5 * time.Second)
			for range 30 {
				for range 3 {
					<-time.After(pause(1500 * time.Millisecond))
					size++
					patch(t.Context(), t, users, objects[roll(crowd)], fmt.Sprintf(`{"spec":{"size":%d}}`, size))
				}
				writes(fmt.Sprintf(`{"priority":100,"lifetime":600,"lastseen":%q}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000")))
				pausingRecord.Store(true)
				pauses.Add(1)
				for range 2 {
					<-time.After(pause(2 * time.Second))
					size++
					patch(t.Context(), t, users, objects[roll(crowd)], fmt.Sprintf(`{"spec":{"size":%d}}`, size))
				}
				pausingRecord.Store(false)
				writes("null")
			}
			<-time.After(time.Minute)
			mu.Lock()
			for _, obj := range objects {
				if since := time.Since(ticks[obj.Name]); since > time.Second {
					t.Errorf("seed %d: last timer call for %s was %s ago, want at most 1s", seed, obj.Name, since)
				}
				if running[obj.Name] != 1 {
					t.Errorf("seed %d: running daemons of %s = %d, want 1", seed, obj.Name, running[obj.Name])
				}
				now := obj.DeepCopy()
				must(t, users.Get(t.Context(), client.ObjectKeyFromObject(obj), now))
				for _, id := range []string{"first", "second"} {
					if seen := last[id+obj.Name]; now.Spec.Size != 1 && seen != now.Spec.Size {
						t.Errorf("seed %d: last size received by %s = %d for %s, want %d", seed, id, seen, obj.Name, now.Spec.Size)
					}
				}
			}
			mu.Unlock()
			<-ended
		})
	}
	t.Logf("%d pauses, %d starts of handlers, timers and daemons", pauses.Load(), starts.Load())
}

// PEER-53: after a pause, the engine reconciles each object once, even unchanged objects, and sends no list requests.
func TestPauses_ReconcileEachObjectOnceAfterwards(t *testing.T) {
	const crowd, edited = 30, 10
	var looks sync.Map // number of reconciles by name
	look := func(next reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			count, _ := looks.LoadOrStore(req.Name, new(atomic.Int64))
			count.(*atomic.Int64).Add(1)
			return next.Reconcile(ctx, req)
		})
	}
	var lists atomic.Int64
	playTwoOperators(t, func(*operatorPair) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).OnEvent("spy", func(context.Context, *kopf.Request[widget]) error { return nil })
	}, func(s *operatorPair) {
		for i := range crowd {
			makeWidget(s.t, s.users, fmt.Sprint("w", i))
		}
		config := rest.CopyConfig(s.config)
		config.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/widgets") { // this is a list request or a watch request
				lists.Add(1)
			}
			return s.config.Transport.RoundTrip(r)
		})
		ctx, stop := context.WithCancel(s.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			runUntil(ctx, s.t, config, s.scheme, kopf.WithReconcilerWrapper(look), kopf.WithWatchCheck(0), kopf.WithPeering(peering.Options{
				Namespaces: []string{namespace}, Identity: "looks", Priority: 5,
			}), kopf.For(&v1.Widget{}).OnReconcile("level", func(context.Context, *kopf.Request[widget]) error { return nil }))
		}()
		defer func() { stop(); <-done }()
		wait(5 * time.Second)
		s.setPeerRecord(pausingRecord)
		for i := range edited {
			obj := s.obj.DeepCopy()
			obj.Name = fmt.Sprint("w", i)
			must(s.t, s.users.Patch(s.t.Context(), obj, rawPatch(`{"spec":{"size":2}}`)))
		}
		wait(5 * time.Second)
		looks.Clear()
		listed := lists.Load()
		s.setPeerRecord("null")
		wait(time.Minute)
		for i := range crowd {
			name := fmt.Sprint("w", i)
			count, looked := looks.Load(name)
			if !looked || count.(*atomic.Int64).Load() != 1 {
				s.t.Errorf("number of reconciles of %s is not 1", name)
			}
		}
		if lists.Load() != listed || listed == 0 {
			s.t.Errorf("lists and watches before the pause = %d, after the pause = %d, want more than 0 and 0", listed, lists.Load()-listed)
		}
	})
}

// PEER-51, PEER-53: if many objects changed during a pause, each daemon restarts once, although workers start while
// objects are still being enqueued.
func TestPauses_RestartTheDaemonsOfManyObjects(t *testing.T) {
	const crowd, pauses = 150, 4
	var running, begun atomic.Int64
	playTwoOperators(t, func(*operatorPair) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 32})).Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[widget]) error {
			begun.Add(1)
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return nil
		})
	}, func(s *operatorPair) {
		objects := []widget{s.obj}
		for i := range crowd - 1 {
			objects = append(objects, makeWidget(s.t, s.users, fmt.Sprint("w", i)))
		}
		wait(5 * time.Second)
		for round := range pauses {
			s.setPeerRecord(pausingRecord)
			for _, obj := range objects {
				must(s.t, s.users.Patch(s.t.Context(), obj.DeepCopy(), rawPatch(fmt.Sprintf(`{"spec":{"size":%d}}`, 2+round))))
			}
			wait(5 * time.Second)
			if n := running.Load(); n != 0 {
				s.t.Errorf("running daemons during a pause = %d, want 0", n)
			}
			s.setPeerRecord("null")
			if n := running.Load(); n != crowd {
				s.t.Errorf("running daemons after the pause = %d, want %d", n, crowd)
			}
			if n, want := begun.Load(), int64(crowd*(round+2)); n != want {
				s.t.Errorf("daemon starts = %d, want %d", n, want)
			}
		}
	})
}
