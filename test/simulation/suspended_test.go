package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// replica is one process of an operator. A test can advance its wall clock, as if the process had been suspended.
type replica struct {
	ahead atomic.Int64
	stop  func()

	mu     sync.Mutex
	writes []string
}

func (r *replica) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}

func (r *replica) suspend() { r.ahead.Add(int64(time.Minute)) }

// replicas are the processes of one operator for one widget.
type replicas struct {
	*testing.T
	callLog
	config *rest.Config
	users  client.Client
	obj    widget
	start  func(widgets *kopf.Resource[widget]) *replica
}

func playReplicas(t *testing.T, act func(s *replicas)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		s := &replicas{T: t, config: config, users: users, obj: makeWidget(t, users, "one")}
		s.start = func(widgets *kopf.Resource[widget]) *replica {
			r := &replica{}
			own := rest.CopyConfig(config)
			own.Transport = transport(func(q *http.Request) (*http.Response, error) {
				if q.Method != http.MethodGet {
					r.mu.Lock()
					r.writes = append(r.writes, q.Method+" "+q.URL.Path)
					r.mu.Unlock()
				}
				return config.Transport.RoundTrip(q)
			})
			wall := func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
			mgr, err := manager.New(own, manager.Options{
				Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
				BaseContext: func() context.Context { return testhook.WithWallClock(context.Background(), wall) },
			})
			must(t, err)
			must(t, kopf.SetupWithManager(mgr, widgets))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- mgr.Start(ctx) }()
			r.stop = sync.OnceFunc(func() {
				cancel()
				must(t, <-ended)
			})
			return r
		}
		act(s)
	})
}

func (s *replicas) now() widget {
	s.Helper()
	obj := s.obj.DeepCopy()
	must(s.T, s.users.Get(s.Context(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

func (s *replicas) resize(size int) {
	s.Helper()
	patch(s.Context(), s.T, s.users, s.obj, fmt.Sprintf(`{"spec":{"size":%d}}`, size))
}

// updates returns a resource whose update handler runs for a while.
func (s *replicas) updates(who string, work time.Duration) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).OnUpdate("update", func(_ context.Context, req *kopf.Request[widget]) error {
		s.addf("%s %d to %d", who, req.Old.Spec.Size, req.Object.Spec.Size)
		wait(work)
		req.Object.Status.Phase = fmt.Sprintf("%s %d", who, req.Object.Spec.Size)
		return nil
	}).OnCreate("create", func(context.Context, *kopf.Request[widget]) error { return nil })
}

// A suspended leader whose lease has expired writes nothing until its manager has stopped.
func TestSuspendedLeader_WritesNothingBeforeItIsStopped(t *testing.T) {
	playReplicas(t, func(s *replicas) {
		old := s.start(s.updates("old", 5*time.Second))
		wait(5 * time.Second)
		s.resize(2)
		wait(time.Second)
		before := len(old.all())
		old.suspend()
		next := s.start(s.updates("new", 0))
		wait(2 * time.Second)
		s.resize(3)
		wait(8 * time.Second)
		old.stop()
		next.stop()
		if writes := old.all()[before:]; len(writes) > 0 {
			t.Errorf("writes after the suspension = %q, want none", writes)
		}
		if phase := s.now().Status.Phase; phase != "new 3" {
			t.Errorf("phase = %q, want new 3", phase)
		}
		s.expect(t, "old 1 to 2", "new 1 to 2", "new 2 to 3")
	})
}

// A leader that keeps its lease during a suspension writes the outcomes of its handlers when its writes are allowed
// again. It repeats no handler.
func TestSuspendedLeader_ContinuesAfterARenewal(t *testing.T) {
	playReplicas(t, func(s *replicas) {
		old := s.start(s.updates("old", 5*time.Second))
		wait(5 * time.Second)
		s.resize(2)
		wait(time.Second)
		before := len(old.all())
		old.suspend()
		wait(10 * time.Second)
		s.resize(3)
		if writes := old.all()[before:]; len(writes) > 0 {
			t.Errorf("writes before the renewal = %q, want none", writes)
		}
		s.expect(t, "old 1 to 2")
		wait(time.Minute)
		old.stop()
		if phase := s.now().Status.Phase; phase != "old 3" {
			t.Errorf("phase = %q, want old 3", phase)
		}
		s.expect(t, "old 1 to 2", "old 2 to 3")
	})
}

// The engine drops the failed writes of a suspended leader if another process has handled the object.
func TestSuspendedLeader_DropsOutdatedWrites(t *testing.T) {
	playReplicas(t, func(s *replicas) {
		old := s.start(s.updates("old", 5*time.Second))
		wait(5 * time.Second)
		s.resize(2)
		wait(time.Second)
		old.suspend()
		next := s.start(s.updates("new", 0))
		wait(2 * time.Second)
		s.resize(3)
		wait(5 * time.Second)
		next.stop()
		want := s.now()
		wait(time.Minute)
		if got := s.now(); got.ResourceVersion != want.ResourceVersion {
			t.Errorf("object after the renewal = %v, want the unchanged object %v", got, want)
		}
		s.resize(4)
		wait(time.Minute)
		old.stop()
		s.expect(t, "old 1 to 2", "new 1 to 2", "new 2 to 3", "old 3 to 4")
	})
}

// A Flush waits until writes are allowed again. It fails if another process has changed the object.
func TestSuspendedLeader_FlushWaits(t *testing.T) {
	for name, overtaken := range map[string]bool{"renewed": false, "overtaken": true} {
		t.Run(name, func(t *testing.T) {
			playReplicas(t, func(s *replicas) {
				flushed := make(chan error, 10)
				old := s.start(kopf.For(&v1.Widget{}).OnUpdate("update", func(ctx context.Context, req *kopf.Request[widget]) error {
					req.Object.Status.Phase = "begun"
					wait(2 * time.Second)
					flushed <- req.Flush(ctx)
					return nil
				}))
				wait(5 * time.Second)
				s.resize(2)
				wait(time.Second)
				old.suspend()
				if overtaken {
					s.start(s.updates("new", 0)).stopAfter(5 * time.Second)
				} else {
					wait(5 * time.Second)
				}
				if len(flushed) > 0 {
					t.Error("Flush returned before the renewal")
				}
				wait(15 * time.Second)
				err := <-flushed
				if overtaken != (err != nil) {
					t.Errorf("error of Flush = %v, want an error: %t", err, overtaken)
				}
				wait(time.Minute)
				old.stop()
				if phase, want := s.now().Status.Phase, map[bool]string{true: "new 2", false: "begun"}[overtaken]; phase != want {
					t.Errorf("phase = %q, want %q", phase, want)
				}
			})
		})
	}
}

func (r *replica) stopAfter(pause time.Duration) {
	wait(pause)
	r.stop()
}

// The engine stops daemons at a suspension. After the renewal, it restarts them and writes their changes.
func TestSuspendedLeader_DaemonsAndTimersWait(t *testing.T) {
	for name, overtaken := range map[string]bool{"renewed": false, "overtaken": true} {
		t.Run(name, func(t *testing.T) {
			playReplicas(t, func(s *replicas) {
				var ticks atomic.Int64
				widgets := func(who string) *kopf.Resource[widget] {
					return kopf.For(&v1.Widget{}).Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
						s.addf("%s begins", who)
						<-ctx.Done()
						s.addf("%s ends: %t", who, errors.Is(context.Cause(ctx), daemons.ErrPaused))
						req.Object.Status.Phase = who
						return nil
					}).Timer("tick", daemons.Timer{Interval: 100 * time.Millisecond}, func(_ context.Context, req *kopf.Request[widget]) error {
						req.Object.Status.Log = []string{fmt.Sprint(ticks.Add(1))}
						return nil
					})
				}
				old := s.start(widgets("old"))
				wait(5*time.Second + 50*time.Millisecond) // between two calls of the timer
				before := len(old.all())
				old.suspend()
				wait(3 * time.Second)
				if writes := old.all()[before:]; len(writes) > 0 {
					t.Errorf("writes before the renewal = %q, want none", writes)
				}
				if overtaken {
					s.start(widgets("new")).stopAfter(5 * time.Second)
				}
				wait(20 * time.Second)
				phase, want := s.now().Status.Phase, map[bool]string{true: "new", false: "old"}[overtaken]
				if phase != want {
					t.Errorf("phase = %q, want %q", phase, want)
				}
				if after := len(old.all()); after == before {
					t.Error("writes after the renewal = 0, want at least 1")
				}
				old.stop()
				if all := strings.Join(s.lines, ", "); !strings.HasPrefix(all, "old begins, old ends: true") || !strings.HasSuffix(all, "old begins, old ends: false") {
					t.Errorf("starts and ends of the daemon = %s", all)
				}
			})
		})
	}
}
