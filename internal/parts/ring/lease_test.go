package ring_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
)

// world is an API server with Leases, in virtual time.
type world struct {
	*testing.T
	leases coordinationv1client.LeaseInterface
	server *apiserver.Server
}

// process is one process of a shard. Its requests can fail, and its clocks can differ.
type process struct {
	cut     atomic.Bool  // its requests fail
	silent  atomic.Bool  // its requests get no responses
	latency atomic.Int64 // of the API server
	lost    atomic.Int32 // the number of requests that get no response after the API server has handled them
	stopped atomic.Bool  // its requests hang, also after the end of their contexts, as in a suspended process
	ahead   atomic.Int64 // of its wall clock
	options ring.LeaseOptions

	lostWrites atomic.Int32 // like lost, without reads
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func run(t *testing.T, act func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: apiserver.New(apiserver.Resource{GroupVersion: coordinationv1.SchemeGroupVersion, Kind: "Lease", Plural: "leases"})}
		w.leases = w.client(w.server).Leases("ns")
		act(w)
	})
}

func (w *world) client(through http.RoundTripper) coordinationv1client.LeasesGetter {
	w.Helper()
	c, err := coordinationv1client.NewForConfig(&rest.Config{Host: "http://simulated", Transport: through, QPS: -1})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) process(instance string) *process {
	p := &process{}
	client := w.client(roundTripper(func(r *http.Request) (*http.Response, error) {
		for p.stopped.Load() {
			sleep(10 * time.Millisecond)
		}
		if p.cut.Load() {
			return nil, errors.New("no connection")
		}
		if p.silent.Load() {
			<-r.Context().Done()
			for p.stopped.Load() {
				sleep(10 * time.Millisecond)
			}
			return nil, r.Context().Err()
		}
		sleep(time.Duration(p.latency.Load()))
		response, err := w.server.RoundTrip(r)
		if p.lost.Add(-1) >= 0 || r.Method != http.MethodGet && p.lostWrites.Add(-1) >= 0 {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		for p.stopped.Load() {
			sleep(10 * time.Millisecond)
		}
		return response, err
	}))
	p.options = ring.LeaseOptions{
		Identity: identity, Client: client, Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		WallClock: func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) },
	}
	p.options.Instance = instance
	return p
}

func sleep(pause time.Duration) { <-time.After(pause) }

func (w *world) acquire(p *process) *ring.Lease {
	w.Helper()
	l, err := ring.AcquireLease(w.Context(), p.options)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// keep renews the Lease until the returned function is called. It returns the error of Keep, and the time of its end.
func (w *world) keep(l *ring.Lease) (stop func() (time.Time, error)) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	var at time.Time
	go func() {
		err := l.Keep(ctx)
		at = time.Now()
		ended <- err
	}()
	return func() (time.Time, error) {
		cancel()
		err := <-ended
		return at, err
	}
}

func (w *world) stored() *coordinationv1.Lease {
	w.Helper()
	l, err := w.leases.Get(w.Context(), "pod-1", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) update(change func(*coordinationv1.Lease)) {
	w.Helper()
	l := w.stored()
	change(l)
	if _, err := w.leases.Update(w.Context(), l, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestLease_FormForTheSharder(t *testing.T) {
	run(t, func(w *world) {
		l := w.acquire(w.process("one"))
		got := w.stored()
		if *got.Spec.HolderIdentity != got.Name || *got.Spec.LeaseDurationSeconds != 15 || got.Labels["ring"] != "databases" ||
			got.Spec.RenewTime == nil || got.Spec.AcquireTime == nil {
			t.Errorf("Lease = %+v, want the name as holder, 15 seconds and the label of the ring", got)
		}
		stop := w.keep(l)
		w.update(func(l *coordinationv1.Lease) { l.Labels["state"] = "ready" })
		sleep(time.Minute)
		if _, err := stop(); err != nil {
			t.Fatal(err)
		}
		if renewed := w.stored(); renewed.Labels["state"] != "ready" || time.Since(renewed.Spec.RenewTime.Time) > 2*time.Second || !renewed.Spec.AcquireTime.Equal(got.Spec.AcquireTime) {
			t.Errorf("Lease after a minute = %+v, want a new renew time and the label of the sharder", renewed)
		}
		if err := l.Release(w.Context()); err != nil {
			t.Fatal(err)
		}
		if released := w.stored(); *released.Spec.HolderIdentity != "" {
			t.Errorf("holder after the release = %q, want none", *released.Spec.HolderIdentity)
		}
		began := time.Now()
		w.acquire(w.process("two"))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the next process waits %s after the release, want no time", waited)
		}
	})
}

// The next process waits for the duration of the Lease, whatever the wall clocks of both processes are.
func TestAcquire_WaitsOutTheLeaseOfAnEarlierProcess(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"equal clocks": 0, "a clock that is ahead": time.Hour, "a clock that is behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.acquire(w.process("one"))
				next := w.process("two")
				next.ahead.Store(int64(ahead))
				began := time.Now()
				w.acquire(next)
				if waited := time.Since(began); waited < 15*time.Second || waited > 18*time.Second {
					t.Errorf("waited %s, want 15s to 18s", waited)
				}
			})
		})
	}
}

func TestAcquire_FailsForASecondProcess(t *testing.T) {
	run(t, func(w *world) {
		stop := w.keep(w.acquire(w.process("one")))
		_, err := ring.AcquireLease(w.Context(), w.process("two").options)
		if err == nil || !strings.Contains(err.Error(), "two processes are the shard") {
			t.Errorf("error of the second process = %v, want an error about the name", err)
		}
		if _, err := stop(); err != nil {
			t.Errorf("error of the first process = %v, want none", err)
		}
	})
}

// The sharder holds the Lease of a dead shard for twice the duration, and moves the objects in this time.
func TestAcquire_WaitsForTheSharder(t *testing.T) {
	run(t, func(w *world) {
		w.acquire(w.process("one"))
		w.update(func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new(ring.SharderIdentity), new(int32(30))
		})
		began := time.Now()
		w.acquire(w.process("two"))
		if waited := time.Since(began); waited < 30*time.Second || waited > 33*time.Second {
			t.Errorf("waited %s, want 30s to 33s", waited)
		}
	})
}

// A process that is stopped while it waits must leave nothing in the Lease. Otherwise, other shards would not mark the Lease as dead.
func TestAcquire_WithdrawsAtAStop(t *testing.T) {
	loseWrite := func(p *process) { p.lostWrites.Store(1) }
	for name, c := range map[string]struct {
		disturb          func(p *process)
		disturbAt, after time.Duration // after the start of the process
		took             time.Duration // from the stop to the end
		announced        bool          // the announcement is left in the Lease
		holder           string
	}{
		"while it waits":            {after: 5 * time.Second, holder: "pod-1"},
		"after a lost announcement": {disturb: loseWrite, after: time.Second, holder: "pod-1"},
		"after a lost acquisition":  {disturb: loseWrite, disturbAt: 5 * time.Second, after: 17 * time.Second},
		"without a connection": {
			disturb: func(p *process) { p.silent.Store(true) }, disturbAt: time.Second, after: 5 * time.Second,
			took: 2 * time.Second, announced: true, holder: "pod-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.acquire(w.process("one"))
				before, next := w.stored(), w.process("two")
				go func() {
					sleep(c.disturbAt)
					if c.disturb != nil {
						c.disturb(next)
					}
				}()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(w.Context(), c.after)
				defer cancel()
				began := time.Now()
				_, err := ring.AcquireLease(ctx, next.options)
				if took := time.Since(began) - c.after; !errors.Is(err, context.DeadlineExceeded) || took != c.took {
					t.Errorf("Acquire() = %v, %s after the stop, want the error of the context after %s", err, took, c.took)
				}
				after := w.stored()
				if _, announced := after.Annotations[ring.SuccessorAnnotation]; announced != c.announced || *after.Spec.HolderIdentity != c.holder {
					t.Errorf("annotations = %v, holder = %q, want an announcement: %t, and the holder %q", after.Annotations, *after.Spec.HolderIdentity, c.announced, c.holder)
				}
				if c.holder != "" && !after.Spec.RenewTime.Equal(before.Spec.RenewTime) {
					t.Error("the process has renewed the Lease of another process")
				}
			})
		})
	}
}

// The sharder can change the labels of the Lease at the same time. The announcement of another process must stay.
func TestAcquire_WithdrawsOnlyItsOwnAnnouncement(t *testing.T) {
	for name, other := range map[string]bool{"own": false, "of another process": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.acquire(w.process("one"))
				next, writes := w.process("two"), 0
				next.options.Client = w.client(roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPut {
						if writes++; writes == 2 { // the first write is the announcement
							w.update(func(l *coordinationv1.Lease) {
								l.Labels["state"] = "expired"
								if other {
									l.Annotations[ring.SuccessorAnnotation] = "three"
								}
							})
						}
					}
					return w.server.RoundTrip(r)
				}))
				ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
				defer cancel()
				if _, err := ring.AcquireLease(ctx, next.options); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire() = %v, want the error of the context", err)
				}
				want := map[bool]string{true: "three"}[other]
				if after := w.stored(); after.Annotations[ring.SuccessorAnnotation] != want || after.Labels["state"] != "expired" {
					t.Errorf("annotations = %v, labels = %v, want the announcement of %q and the label of the sharder", after.Annotations, after.Labels, want)
				}
			})
		})
	}
}

func TestKeep_GivesUpAtTheDeadline(t *testing.T) {
	run(t, func(w *world) {
		p := w.process("one")
		l := w.acquire(p)
		began := time.Now()
		stop := w.keep(l)
		p.cut.Store(true)
		sleep(time.Minute)
		at, err := stop()
		if after := at.Sub(began); !errors.Is(err, ring.ErrLost) || after < 9*time.Second || after > 12*time.Second {
			t.Errorf("Keep() = %v after %s, want ErrLost after 10s to 12s", err, after)
		}
	})
}

// Whatever the durations are, Keep must end at the RenewDeadline, so that the handlers have the rest of the Duration for their end.
func TestKeep_GivesUpAtTheDeadlineWithoutResponses(t *testing.T) {
	for _, durations := range [][3]time.Duration{
		{15 * time.Second, 10 * time.Second, 2 * time.Second},
		{15 * time.Second, 10 * time.Second, 4 * time.Second},
		{30 * time.Second, 20 * time.Second, 8 * time.Second},
		{15 * time.Second, 14 * time.Second, 5 * time.Second},
	} {
		t.Run(fmt.Sprint(durations), func(t *testing.T) {
			for _, delay := range []time.Duration{0, 500 * time.Millisecond, durations[2] - time.Millisecond} {
				run(t, func(w *world) {
					p := w.process("one")
					p.options.Duration, p.options.RenewDeadline, p.options.RetryPeriod = durations[0], durations[1], durations[2]
					began := time.Now()
					stop := w.keep(w.acquire(p))
					sleep(delay)
					p.silent.Store(true)
					sleep(time.Minute)
					at, err := stop()
					if after := at.Sub(began); !errors.Is(err, ring.ErrLost) || after != durations[1] {
						t.Errorf("Keep() = %v after %s, want ErrLost after %s", err, after, durations[1])
					}
				})
			}
		})
	}
}

// A lost request or response must not end a shard, also if the API server is slow.
func TestKeep_SurvivesALostResponse(t *testing.T) {
	for _, latency := range []time.Duration{0, 300 * time.Millisecond, time.Second} {
		run(t, func(w *world) {
			p := w.process("one")
			p.latency.Store(int64(latency))
			stop := w.keep(w.acquire(p))
			for range 10 {
				p.lost.Store(1)
				sleep(30 * time.Second)
			}
			if _, err := stop(); err != nil {
				t.Errorf("latency %s: Keep() = %v, want no error", latency, err)
			}
		})
	}
}

func TestIsOverdue(t *testing.T) {
	run(t, func(w *world) {
		p := w.process("one")
		l := w.acquire(p)
		stop := w.keep(l)
		sleep(time.Minute)
		if l.IsOverdue() {
			t.Error("IsOverdue() = true for a Lease that is renewed")
		}
		p.silent.Store(true)
		sleep(7 * time.Second)
		if l.IsOverdue() {
			t.Error("IsOverdue() = true before the deadline")
		}
		sleep(3 * time.Second)
		if !l.IsOverdue() {
			t.Error("IsOverdue() = false after the deadline")
		}
		sleep(time.Second)
		if _, err := stop(); !errors.Is(err, ring.ErrLost) {
			t.Errorf("Keep() = %v, want ErrLost", err)
		}
	})
}

// The fence does not notice a suspension that is shorter than the rest of the Duration after the RenewDeadline.
func TestKeep_GivesUpAtTheEndOfAShortSuspension(t *testing.T) {
	for _, start := range []time.Duration{6 * time.Second, 9500 * time.Millisecond} {
		run(t, func(w *world) {
			p := w.process("one")
			began := time.Now()
			stop := w.keep(w.acquire(p))
			p.silent.Store(true)
			sleep(start)
			p.stopped.Store(true)
			sleep(4900 * time.Millisecond)
			p.stopped.Store(false)
			sleep(time.Minute)
			at, err := stop()
			if after := at.Sub(began); !errors.Is(err, ring.ErrLost) || after > start+4950*time.Millisecond {
				t.Errorf("Keep() = %v after %s, want ErrLost at the end of the suspension, after %s", err, after, start+4900*time.Millisecond)
			}
		})
	}
}

func TestKeep_SurvivesAShortOutage(t *testing.T) {
	run(t, func(w *world) {
		p := w.process("one")
		stop := w.keep(w.acquire(p))
		for range 10 {
			p.cut.Store(true)
			sleep(7 * time.Second)
			p.cut.Store(false)
			sleep(5 * time.Second)
		}
		if _, err := stop(); err != nil {
			t.Errorf("Keep() = %v, want no error", err)
		}
	})
}

func TestKeep_EndsIfTheSharderHoldsTheLease(t *testing.T) {
	for name, take := range map[string]func(w *world){
		"acquired": func(w *world) {
			w.update(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new(ring.SharderIdentity) })
		},
		"deleted": func(w *world) {
			if err := w.leases.Delete(w.Context(), "pod-1", metav1.DeleteOptions{}); err != nil {
				w.Fatal(err)
			}
		},
		"taken by a process with the same name": func(w *world) {
			w.update(func(l *coordinationv1.Lease) { l.Annotations[ring.InstanceAnnotation] = "two" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				began := time.Now()
				l := w.acquire(w.process("one"))
				stop := w.keep(l)
				take(w)
				sleep(5 * time.Second)
				if at, err := stop(); !errors.Is(err, ring.ErrLost) || at.Sub(began) > 3*time.Second {
					t.Errorf("Keep() = %v after %s, want ErrLost within 3s", err, at.Sub(began))
				}
				if l.Remaining() > 0 || !l.IsOverdue() {
					t.Errorf("Remaining() = %s, IsOverdue() = %t, want 0s and true, because another process can handle the objects", l.Remaining(), l.IsOverdue())
				}
			})
		})
	}
}

// A suspended process does not know whether the sharder has moved its objects. A renewal after the suspension shows it. The response to an earlier renewal is too
// old to show it.
func TestKeep_AfterASuspension(t *testing.T) {
	for name, latency := range map[string]time.Duration{"between renewals": 0, "during a renewal": time.Second} {
		for holder, taken := range map[string]bool{"still held": false, "taken by the sharder": true} {
			t.Run(name+", "+holder, func(t *testing.T) {
				run(t, func(w *world) {
					p := w.process("one")
					l := w.acquire(p)
					stop := w.keep(l)
					p.latency.Store(int64(latency))
					sleep(2 * latency)
					sleep(500 * time.Millisecond) // with the latency, the API server receives the renewal after 3 s
					p.stopped.Store(true)
					sleep(20 * time.Second)
					if left := l.Remaining(); left > 0 {
						t.Errorf("Remaining() = %s after 20s, want 0", left)
					}
					if taken {
						w.update(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new(ring.SharderIdentity) })
					}
					p.stopped.Store(false)
					sleep(5 * time.Second)
					if isOverdue := l.IsOverdue(); isOverdue != taken {
						t.Errorf("IsOverdue() = %t, want %t", isOverdue, taken)
					}
					if _, err := stop(); taken != errors.Is(err, ring.ErrLost) {
						t.Errorf("Keep() = %v, want ErrLost: %t", err, taken)
					}
				})
			})
		}
	}
}

// A Lease that has possibly expired before the response arrives is acquired again.
func TestAcquire_AfterASuspensionDuringTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		total int
		at    time.Duration // each request takes a second
	}{
		"during the write":                        {0, 1500 * time.Millisecond},
		"during the write, with a fixed number":   {3, 2500 * time.Millisecond},
		"during the check of the other processes": {3, 3500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				p := w.process("one")
				p.options.Total = c.total
				p.latency.Store(int64(time.Second))
				go func() {
					sleep(c.at)
					p.stopped.Store(true)
					sleep(20 * time.Second)
					p.stopped.Store(false)
				}()
				l := w.acquire(p)
				if l.Remaining() < 10*time.Second {
					t.Errorf("Remaining() = %s, want at least 10s", l.Remaining())
				}
				stop := w.keep(l)
				sleep(time.Minute)
				if _, err := stop(); err != nil {
					t.Errorf("Keep() = %v, want no error", err)
				}
			})
		})
	}
}

// On some machines, only the wall clock shows a suspension.
func TestKeep_TrustsTheClockThatIsAhead(t *testing.T) {
	run(t, func(w *world) {
		p := w.process("one")
		stop := w.keep(w.acquire(p))
		sleep(time.Second)
		p.cut.Store(true)
		p.ahead.Store(int64(time.Minute))
		sleep(3 * time.Second)
		if _, err := stop(); !errors.Is(err, ring.ErrLost) {
			t.Errorf("Keep() = %v, want ErrLost", err)
		}
	})
}
