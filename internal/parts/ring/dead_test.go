package ring_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
)

// neighbor returns another process of the ring, which marks the Leases of dead shards until the test ends.
func (w *world) neighbor(name string) *process {
	p := w.process(name)
	p.options.Name = name
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ring.MarkDeadShards(ctx, p.options)
	}()
	w.Cleanup(func() { cancel(); <-ended })
	return p
}

func isMarked(lease *coordinationv1.Lease) bool {
	return *lease.Spec.HolderIdentity == ring.SharderIdentity
}

// awaitMark returns the time until the Lease is marked, at most a minute.
func (w *world) awaitMark() time.Duration {
	began := time.Now()
	for !isMarked(w.stored()) && time.Since(began) < time.Minute {
		sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}

func TestMarkDeadShards_OneDurationAfterTheLastRenewal(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"equal clocks": 0, "a clock that is ahead": time.Hour, "a clock that is behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.neighbor("pod-2").ahead.Store(int64(ahead))
				w.neighbor("pod-3")
				one := w.process("one")
				stop := w.keep(w.acquire(one))
				sleep(time.Minute)
				if isMarked(w.stored()) {
					t.Error("the Lease of a living shard is marked")
				}
				before := w.stored()
				one.cut.Store(true)
				if took := w.awaitMark(); took < 13*time.Second || took > 16500*time.Millisecond {
					t.Errorf("the Lease is marked after %s, want 13s to 16.5s", took)
				}
				marked := w.stored()
				if *marked.Spec.LeaseDurationSeconds != 30 || *marked.Spec.LeaseTransitions != 1 || marked.Spec.RenewTime.Equal(before.Spec.RenewTime) ||
					marked.Labels["ring"] != "databases" {
					t.Errorf("marked Lease = %+v, want a new renew time, twice the duration, and the label of the ring", marked)
				}
				one.cut.Store(false)
				if _, err := stop(); err == nil {
					t.Error("Keep() = nil after the mark, want ErrLost")
				}
				began := time.Now()
				w.acquire(w.process("two"))
				if waited := time.Since(began); waited < 20*time.Second {
					t.Errorf("a process with the same name waits %s, want the rest of 30s, in which the sharder moves the objects", waited)
				}
			})
		})
	}
}

func TestMarkDeadShards_Ignores(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.Lease){
		"the Lease of another ring":                func(l *coordinationv1.Lease) { l.Labels["ring"] = "others" },
		"the Lease of another implementation":      func(l *coordinationv1.Lease) { delete(l.Annotations, ring.InstanceAnnotation) },
		"a released Lease":                         func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") },
		"a Lease for which a process waits":        func(l *coordinationv1.Lease) { l.Annotations[ring.SuccessorAnnotation] = "two" },
		"a Lease that only has the label of rings": func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("leader") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.acquire(w.process("one"))
				w.update(change)
				before := w.stored().ResourceVersion
				w.neighbor("pod-2")
				sleep(time.Minute)
				if after := w.stored(); after.ResourceVersion != before {
					t.Errorf("the Lease was changed: %+v", after)
				}
			})
		})
	}
}

// A process that restarts with the same name keeps the objects, because the other shards see that it waits.
func TestMarkDeadShards_LeavesTheLeaseToItsSuccessor(t *testing.T) {
	run(t, func(w *world) {
		w.neighbor("pod-2")
		w.acquire(w.process("one"))
		sleep(3 * time.Second)
		l := w.acquire(w.process("two"))
		if held := w.stored(); *held.Spec.HolderIdentity != "pod-1" || held.Annotations[ring.SuccessorAnnotation] != "" {
			t.Errorf("Lease of the successor = %+v, want its name as the holder, and no waiting process", held)
		}
		stop := w.keep(l)
		sleep(5 * time.Second)
		if _, err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := w.awaitMark(); took > 16500*time.Millisecond {
			t.Errorf("the Lease of the dead successor is marked after %s, want 16.5s at most", took)
		}
	})
}

// A process that was suspended together with the others gives them time to renew their Leases.
func TestMarkDeadShards_AfterItsOwnSuspension(t *testing.T) {
	run(t, func(w *world) {
		neighbor, one := w.neighbor("pod-2"), w.process("one")
		stop := w.keep(w.acquire(one))
		for range 10 {
			sleep(10 * time.Second)
			neighbor.stopped.Store(true)
			one.stopped.Store(true)
			sleep(40 * time.Second)
			neighbor.stopped.Store(false)
			sleep(2 * time.Second)
			one.stopped.Store(false)
		}
		sleep(time.Minute)
		if _, err := stop(); err != nil || isMarked(w.stored()) {
			t.Errorf("Keep() = %v, marked: %t, want a Lease that is still held", err, isMarked(w.stored()))
		}
	})
}

// A renewal between the reading and the mark must win.
func TestMarkDeadShards_LosesAgainstARenewal(t *testing.T) {
	run(t, func(w *world) {
		w.acquire(w.process("one"))
		late := w.process("late")
		late.options.Name = "pod-2"
		tried := 0
		late.options.Client = w.client(roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				if tried++; tried == 1 {
					w.update(func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NowMicro()) })
				}
			}
			return w.server.RoundTrip(r)
		}))
		ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
		defer cancel()
		ring.MarkDeadShards(ctx, late.options)
		if tried == 0 || isMarked(w.stored()) {
			t.Errorf("%d attempts, marked: %t, want an attempt that fails", tried, isMarked(w.stored()))
		}
	})
}

// refusing returns a process whose requests with a method are forbidden, and functions that return the number of these requests and of error lines.
func (w *world) refusing(method string) (p *process, requests, lines func() int) {
	p = w.process("refused")
	p.options.Name = "pod-2"
	refused, logged := 0, 0
	p.options.Client = w.client(roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != method {
			return w.server.RoundTrip(r)
		}
		refused++
		return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r}, nil
	}))
	p.options.Log = funcr.New(func(_, args string) {
		if strings.Contains(args, "Failed") {
			logged++
		}
	}, funcr.Options{})
	return p, func() int { return refused }, func() int { return logged }
}

// Without the permissions, nothing is marked, the failure is logged once, and the sharder detects the crash later.
func TestMarkDeadShards_WithoutPermission(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		run(t, func(w *world) {
			w.acquire(w.process("one"))
			p, requests, lines := w.refusing(method)
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			ring.MarkDeadShards(ctx, p.options)
			if requests() < 20 || requests() > 60 || lines() != 1 {
				t.Errorf("%s: %d requests and %d error lines in a minute, want one request every 1s to 2s and one line", method, requests(), lines())
			}
			if isMarked(w.stored()) {
				t.Error("the Lease is marked")
			}
		})
	}
}

// A successor can also die before it holds the Lease. The Lease is then marked by the sharder only.
func TestMarkDeadShards_LeavesTheLeaseOfADeadSuccessorToTheSharder(t *testing.T) {
	run(t, func(w *world) {
		w.acquire(w.process("one"))
		next := w.process("two")
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		time.AfterFunc(4*time.Second, func() { next.cut.Store(true) })
		if _, err := ring.AcquireLease(ctx, next.options); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Acquire() = %v, want the error of the context", err)
		}
		w.neighbor("pod-2")
		if took := w.awaitMark(); took < time.Minute {
			t.Errorf("the Lease is marked after %s, want no mark", took)
		}
	})
}
