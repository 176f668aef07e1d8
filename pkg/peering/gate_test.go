package peering

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// gateRunner runs a gate with a queue and workers, like a controller.
type gateRunner struct {
	*Gate
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]

	mu               sync.Mutex
	calls            []string
	busy             time.Duration // duration of a call
	callsDuringPause int
}

func (s *simulation) gate(a *operator, isSource bool) *gateRunner {
	w := &gateRunner{queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	w.Gate = a.Gate(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		w.mu.Lock()
		w.calls = append(w.calls, request.String())
		busy := w.busy
		if paused, _ := a.Paused(request.Namespace); paused {
			w.callsDuringPause++
		}
		w.mu.Unlock()
		<-time.After(busy)
		return reconcile.Result{}, nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	if isSource {
		if err := w.Start(ctx, w.queue); err != nil {
			s.Fatal(err)
		}
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				request, shutdown := w.queue.Get()
				if shutdown {
					return
				}
				result, err := w.Reconcile(ctx, request)
				if err != nil {
					panic(err)
				}
				w.queue.Forget(request)
				if result.RequeueAfter > 0 {
					w.queue.AddAfter(request, result.RequeueAfter)
				}
				w.queue.Done(request)
			}
		})
	}
	s.Cleanup(func() {
		cancel()
		w.queue.ShutDown()
		workers.Wait()
	})
	return w
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func (w *gateRunner) takeCalls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// A gate defers requests during a pause. After the pause, it passes on each request once.
func TestGate_DefersDuringPause(t *testing.T) {
	for _, isSource := range []bool{true, false} {
		t.Run(fmt.Sprint("source: ", isSource), func(t *testing.T) {
			simulate(t, func(s *simulation) {
				s.create(defaultKey, nil)
				a := s.start(Options{Identity: "a"})
				w := s.gate(a, isSource)
				w.queue.Add(request("ns", "before"))
				s.wait(time.Second)
				s.equal("calls", w.takeCalls(), "[ns/before]")
				s.putRecord(defaultKey, "b", kopfRecord(1, time.Minute))
				s.wait(0)
				for range 100 {
					w.queue.Add(request("ns", "during"))
					s.wait(time.Second / 10)
				}
				s.equal("calls", w.takeCalls(), "[]")
				s.putRecord(defaultKey, "b", nil)
				s.wait(pollPaused)
				s.equal("calls", w.takeCalls(), "[ns/during]")
				s.wait(time.Hour)
				s.equal("calls", w.takeCalls(), "[]")
			})
		})
	}
}

// The gate defers only requests of the paused namespace. Deferred requests do not block a worker.
func TestGate_Namespaces(t *testing.T) {
	simulate(t, func(s *simulation) {
		one, two := namespacedPeerings+"/one/default", namespacedPeerings+"/two/default"
		s.create(one, nil)
		s.create(two, nil)
		a := s.start(Options{Identity: "a", Namespaces: []string{"one", "two"}})
		w := s.gate(a, true)
		s.putRecord(two, "b", kopfRecord(1, time.Minute))
		s.wait(0)
		for i := range 20 {
			w.queue.Add(request("two", fmt.Sprint(i)))
		}
		w.queue.Add(request("one", "x"))
		w.queue.Add(request("", "cluster-wide"))
		s.wait(0)
		s.equal("calls", w.takeCalls(), "[one/x]")
		s.putRecord(one, "b", kopfRecord(1, time.Minute))
		s.wait(0)
		s.putRecord(two, "b", nil)
		s.wait(0)
		s.equal("calls", len(w.takeCalls()), 20)
		s.putRecord(one, "b", nil)
		s.wait(0)
		s.equal("calls", w.takeCalls(), "[/cluster-wide]")
	})
}

// If pauses occur at random times, no call starts during a pause, and no request is lost.
func TestGate_RandomPauses(t *testing.T) {
	for seed := range 20 {
		simulate(t, func(s *simulation) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "a"})
			w := s.gate(a, true)
			w.busy = 7 * time.Millisecond
			due := map[string]bool{}
			for range 300 {
				switch random.IntN(6) {
				case 0:
					s.putRecord(defaultKey, "b", kopfRecord(1, time.Minute))
				case 1:
					s.putRecord(defaultKey, "b", nil)
				default:
					r := request("ns", fmt.Sprint(random.IntN(30)))
					due[r.String()] = true
					w.queue.Add(r)
				}
				s.wait(time.Duration(random.IntN(5)) * time.Millisecond)
			}
			s.putRecord(defaultKey, "b", nil)
			s.wait(time.Minute)
			for _, call := range w.takeCalls() {
				delete(due, call)
			}
			s.equal("number of lost requests", len(due), 0)
			s.equal("calls during a pause", w.callsDuringPause, 0)
			s.equal("number of waiting requests", len(w.waiting), 0)
		})
	}
}

// After the shutdown, the gate passes on no requests.
func TestGate_AfterShutdown(t *testing.T) {
	simulate(t, func(s *simulation) {
		a := s.start(Options{Identity: "a"})
		w := s.gate(a, true)
		a.stop()
		w.queue.Add(request("ns", "late"))
		s.wait(time.Hour)
		s.equal("calls", w.takeCalls(), "[]")
	})
}
