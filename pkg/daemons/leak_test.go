package daemons_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// startSupervisor starts a supervisor with the real clock.
func startSupervisor(tb testing.TB) *daemons.Supervisor {
	s := daemons.New(daemons.Options{})
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), logr.Discard()))
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return s
}

func heapSize() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// B-43: the daemons and timers of ten thousand objects leave no memory allocated, and their contexts end soon.
func TestSupervisor_ReleasesMemory(t *testing.T) {
	g := NewWithT(t)
	s := startSupervisor(t)
	round := func(from, to int) {
		running := make(chan struct{}, 2*(to-from))
		for i := from; i < to; i++ {
			uid := types.UID(fmt.Sprint(i))
			run := func(ctx context.Context, _ attempt) error {
				running <- struct{}{}
				<-ctx.Done()
				return nil
			}
			g.Expect(s.Ensure(daemons.Key{UID: uid, ID: "daemon"}, daemons.Task{Run: run})).To(Succeed())
			g.Expect(s.Ensure(daemons.Key{UID: uid, ID: "timer"}, daemons.Task{
				Run: run, Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 100},
			})).To(Succeed())
		}
		for range 2 * (to - from) {
			<-running
		}
		for i := from; i < to; i++ {
			uid := types.UID(fmt.Sprint(i))
			before := time.Now()
			s.StopAll(uid, daemons.ErrDeleted)
			g.Expect(s.Wait(t.Context(), uid)).To(Succeed())
			g.Expect(time.Since(before)).To(BeNumerically("<", 5*time.Second), "B-42")
		}
	}
	round(0, 100) // allocate the shared state once
	goroutines, bytes := runtime.NumGoroutine(), heapSize()
	for i := range 100 {
		round(100+i*100, 200+i*100)
	}
	g.Expect(daemons.Jobs(s)).To(BeZero())
	g.Eventually(runtime.NumGoroutine).WithTimeout(10*time.Second).Should(BeNumerically("<=", goroutines), "goroutines")
	g.Eventually(func() int64 { return heapSize() - bytes }).WithTimeout(10*time.Second).Should(BeNumerically("<", 256<<10), "additional bytes of the heap")
}
