package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type widget = *v1.Widget

// lifetime contains the start and the end of a process.
type lifetime struct{ from, to time.Time }

// runFor runs an operator for a duration and returns its lifetime.
func runFor(t *testing.T, config *rest.Config, scheme *runtime.Scheme, duration time.Duration, options ...kopf.Option) lifetime {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	return runUntil(ctx, t, config, scheme, options...)
}

// runUntil runs an operator until the context ends.
func runUntil(ctx context.Context, t *testing.T, config *rest.Config, scheme *runtime.Scheme, options ...kopf.Option) lifetime {
	t.Helper()
	mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	must(t, err)
	must(t, kopf.SetupWithManager(mgr, options...))
	one := lifetime{from: time.Now()}
	must(t, mgr.Start(ctx))
	one.to = time.Now()
	return one
}

func newWorld(t *testing.T) (*rest.Config, *runtime.Scheme, client.Client) {
	t.Helper()
	scheme, config := runtime.NewScheme(), simulated()
	must(t, v1.AddToScheme(scheme))
	users, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return config, scheme, users
}

func makeWidget(t *testing.T, users client.Client, name string) widget {
	t.Helper()
	obj := &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}
	obj.Namespace, obj.Name = namespace, name
	must(t, users.Create(t.Context(), obj))
	return obj
}

// callTimes records the times of handler calls by object. It is safe for concurrent use.
type callTimes struct {
	mu    sync.Mutex
	times map[string][]time.Time
}

func (d *callTimes) record(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.times == nil {
		d.times = map[string][]time.Time{}
	}
	d.times[name] = append(d.times[name], time.Now())
}

func (d *callTimes) within(name string, one lifetime) (all []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.times[name] {
		if !at.Before(one.from) && !at.After(one.to) {
			all = append(all, at)
		}
	}
	return all
}

// TIM-01, TIM-04, DAE-11: An operator restarts twenty times while users and handlers change the objects. No timer is lost or duplicated, and sharp
// timers keep their schedule.
func TestTimers_SurviveManyRestarts(t *testing.T) {
	const sharp, plain = 10 * time.Second, 7 * time.Second
	for seed := range seeds(2) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a repeatable sequence, not used for security
			config, scheme, users := newWorld(t)
			objects := map[string]time.Time{}
			for i := range 20 {
				obj := makeWidget(t, users, fmt.Sprint("w", i))
				objects[obj.Name] = obj.CreationTimestamp.Time
				<-time.After(time.Duration(dice.Int64N(int64(3 * time.Second))))
			}
			points, beats, watches := &callTimes{}, &callTimes{}, &callTimes{}
			databases := func() kopf.Option {
				return kopf.For(&v1.Widget{}).
					Timer("sharp", daemons.Timer{Interval: sharp, Sharp: true}, func(_ context.Context, req *kopf.Request[widget]) error {
						points.record(req.Object.Name)
						req.Object.Status.Phase = time.Now().String()
						return nil
					}).
					Timer("plain", daemons.Timer{Interval: plain}, func(_ context.Context, req *kopf.Request[widget]) error {
						beats.record(req.Object.Name)
						return nil
					}).
					Daemon("watch", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
						watches.record(req.Object.Name)
						<-ctx.Done()
						return nil
					}).
					OnUpdate("fails", func(context.Context, *kopf.Request[widget]) error { return errors.New("no luck") },
						kopf.Backoff(3*time.Second))
			}
			ctx, quiet := context.WithCancel(t.Context())
			var crowd sync.WaitGroup
			crowd.Go(func() {
				for n := 2; ctx.Err() == nil; n++ {
					obj := &v1.Widget{}
					obj.Namespace, obj.Name = namespace, fmt.Sprint("w", n%20)
					patch(ctx, t, users, obj, fmt.Sprintf(`{"spec":{"size":%d}}`, n))
					select {
					case <-ctx.Done():
					case <-time.After(500 * time.Millisecond):
					}
				}
			})
			var lifetimes []lifetime
			for range 20 {
				lifetimes = append(lifetimes, runFor(t, config, scheme, time.Second+time.Duration(dice.Int64N(int64(40*time.Second))), databases()))
				<-time.After(time.Duration(dice.Int64N(int64(15 * time.Second))))
			}
			quiet()
			crowd.Wait()

			for name, created := range objects {
				for i, one := range lifetimes {
					checkSharp(t, fmt.Sprintf("seed %d, process %d, %s", seed, i, name), points.within(name, one), created, sharp, one)
					checkPlain(t, fmt.Sprintf("seed %d, process %d, %s", seed, i, name), beats.within(name, one), plain, one)
					if n := len(watches.within(name, one)); n != 1 {
						t.Errorf("seed %d, process %d, %s: daemon starts = %d, want 1", seed, i, name, n)
					}
				}
			}
		})
	}
}

// startupTime is the maximum virtual time from the start of an operator until all timers run. The operator first adds
// the finalizers.
const startupTime = 500 * time.Millisecond

func checkSharp(t *testing.T, what string, seen []time.Time, created time.Time, interval time.Duration, one lifetime) {
	t.Helper()
	used := map[int64]bool{}
	for _, at := range seen {
		since := at.Sub(created)
		if since%interval > 10*time.Millisecond {
			t.Errorf("%s: delay of a sharp timer = %s, want at most 10ms", what, since%interval)
		}
		if k := int64(since / interval); used[k] {
			t.Errorf("%s: number of timer calls at point %d = 2, want 1", what, k)
		} else {
			used[k] = true
		}
	}
	first := one.from.Add(startupTime).Sub(created)/interval + 1
	for k := int64(first); created.Add(time.Duration(k) * interval).Before(one.to); k++ {
		if !used[k] {
			t.Errorf("%s: number of timer calls at point %d = 0, want 1", what, k)
		}
	}
}

func checkPlain(t *testing.T, what string, seen []time.Time, interval time.Duration, one lifetime) {
	t.Helper()
	if len(seen) == 0 || seen[0].Sub(one.from) > startupTime {
		t.Errorf("%s: timer calls = %v, want the first one within %s of the start", what, seen, startupTime)
		return
	}
	for i := 1; i < len(seen); i++ {
		if pause := seen[i].Sub(seen[i-1]); pause < interval || pause > interval+10*time.Millisecond {
			t.Errorf("%s: time between timer calls = %s, want %s", what, pause, interval)
		}
	}
	if left := one.to.Sub(seen[len(seen)-1]); left > interval+10*time.Millisecond {
		t.Errorf("%s: time between the last timer call and the end = %s, want at most %s", what, left, interval)
	}
}

// B-01, B-13: changes of the essence by timers and daemons are not updates, even during a cycle. Changes by users are
// updates, and each handler eventually receives them.
func TestBackgroundEdits_AreNoUpdates(t *testing.T) {
	for seed := range seeds(6) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a repeatable sequence, not used for security
			config, scheme, users := newWorld(t)
			obj := makeWidget(t, users, "one")
			var mu sync.Mutex
			ticks, updates, last := 0, 0, map[string]int{}
			pause := func(atMost time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(dice.Int64N(int64(atMost)))
			}
			fails := func() bool { mu.Lock(); defer mu.Unlock(); return dice.IntN(3) == 0 }
			update := func(id string) kopf.Handler[widget] {
				return func(_ context.Context, req *kopf.Request[widget]) error {
					<-time.After(pause(2 * time.Second))
					if fails() {
						return kopf.Temporary(errors.New("no luck"), time.Second)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, item := range req.Diff {
						if item.Path[0] == "spec" && len(item.Path) > 1 && item.Path[1] == "size" {
							last[id] = int(item.New.(int64))
						}
						if len(item.Path) > 1 && (item.Path[1] == "tags" || item.Path[1] == "labels") {
							t.Errorf("seed %d: diff of an update contains an edit by a timer: %v", seed, req.Diff)
						}
					}
					updates++
					return nil
				}
			}
			ended := make(chan lifetime, 1)
			go func() {
				ended <- runFor(t, config, scheme, 5*time.Minute, kopf.For(&v1.Widget{}).
					OnUpdate("first", update("first")).
					OnUpdate("second", update("second")).
					Timer("tags", daemons.Timer{Interval: 700 * time.Millisecond}, func(_ context.Context, req *kopf.Request[widget]) error {
						mu.Lock()
						defer mu.Unlock()
						if ticks++; ticks > 200 {
							return nil
						}
						req.Object.Spec.Tags = append(req.Object.Spec.Tags, fmt.Sprint(ticks))
						req.Object.Labels = map[string]string{"tick": fmt.Sprint(ticks)}
						req.Object.Status.Phase = fmt.Sprint(ticks)
						if len(req.Object.Spec.Tags) > 5 {
							req.Object.Spec.Tags = req.Object.Spec.Tags[3:]
						}
						return nil
					}))
			}()
			size := 1
			for range 15 {
				<-time.After(pause(8 * time.Second))
				size++
				patch(t.Context(), t, users, obj, fmt.Sprintf(`{"spec":{"size":%d}}`, size))
			}
			<-ended
			if last["first"] != size || last["second"] != size {
				t.Errorf("seed %d: last sizes received by handlers = %v, want %d", seed, last, size)
			}
			now := &v1.Widget{}
			must(t, users.Get(t.Context(), client.ObjectKeyFromObject(obj), now))
			if now.Spec.Size != size || now.Status.Phase != "200" || now.Labels["tick"] != "200" {
				t.Errorf("seed %d: spec = %+v, status = %+v, labels = %v, want size %d and 200 as phase and tick", seed, now.Spec, now.Status, now.Labels, size)
			}
			if updates > 40 {
				t.Errorf("seed %d: handler calls for updates = %d, want at most 40", seed, updates)
			}
		})
	}
}
