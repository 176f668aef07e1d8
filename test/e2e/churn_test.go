package e2e

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// churnEnv is the environment variable with the number of objects to create and delete. The default is 300.
const churnEnv = "KOPF_E2E_CHURN"

var _ = Describe("Objects that are created and deleted", Serial, func() {
	type W = *v1.Widget

	It("leak no goroutines and no memory of daemons and timers; a deletion cancels the contexts immediately", func(ctx context.Context) {
		rounds := 300
		if text := os.Getenv(churnEnv); text != "" {
			var err error
			rounds, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred())
		}
		ns := newNamespace(ctx)
		var mu sync.Mutex
		deleted, began, latencies := map[string]time.Time{}, map[string]chan struct{}{}, []time.Duration(nil)
		mgr := newManager(ns, &logRecorder{empty: true})
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
				mu.Lock()
				close(began[req.Object.Name])
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				latencies = append(latencies, time.Since(deleted[req.Object.Name]))
				delete(deleted, req.Object.Name)
				return nil
			}).
			Timer("timer", daemons.Timer{Interval: 10 * time.Millisecond}, func(context.Context, *kopf.Request[W]) error { return nil })))).To(Succeed())
		launch(mgr, &logRecorder{})
		round := func(name string) {
			defer GinkgoRecover()
			obj, running := widget(ns, name), make(chan struct{})
			mu.Lock()
			began[name] = running
			mu.Unlock()
			create(ctx, obj)
			Eventually(running).Should(BeClosed())
			mu.Lock()
			deleted[name] = time.Now()
			delete(began, name)
			mu.Unlock()
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
		}
		run := func(from, to int) {
			names := make(chan string)
			var workers sync.WaitGroup
			for range 8 {
				workers.Go(func() {
					for name := range names {
						round(name)
					}
				})
			}
			for i := from; i < to; i++ {
				names <- fmt.Sprint("w", i)
			}
			close(names)
			workers.Wait()
		}
		heap := func() uint64 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&stats)
			return stats.HeapAlloc
		}
		run(0, 50) // the first run fills caches and pools before the measurement
		goroutines, before := runtime.NumGoroutine(), heap()
		run(50, 50+rounds)
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines+5))
		after := heap()
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(latencies)
		AddReportEntry("churn", fmt.Sprintf("%d objects: goroutines %d → %d, heap %d → %d KiB; daemons cancelled after %s (median), %s (p99), %s (at most)",
			rounds, goroutines, runtime.NumGoroutine(), before/1024, after/1024,
			latencies[len(latencies)/2], latencies[len(latencies)*99/100], latencies[len(latencies)-1]))
		Expect(latencies).To(HaveLen(rounds + 50))
		Expect(int64(after)-int64(before)).To(BeNumerically("<", 100*int64(rounds)+(4<<20)), "the heap may grow by 100 bytes per object plus 4 MiB")
	}, SpecTimeout(20*minute))
})
