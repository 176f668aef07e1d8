package kopfmulticluster

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A load creates and changes objects of a cluster until it is stopped.
type load struct {
	paused atomic.Bool
	stop   func()
}

func startLoad(t *testing.T, g *WithT, cp *controlplane.ControlPlane, ns string) *load {
	t.Helper()
	const objects = 20
	l, c := &load{}, direct(g, cp)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	l.stop = func() { cancel(); ended.Wait() }
	t.Cleanup(l.stop)
	ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if l.paused.Load() {
				<-time.After(10 * time.Millisecond)
				continue
			}
			obj := newConfigMap(ns, fmt.Sprint("load-", i%objects))
			if err := c.Get(ctx, keyOf(obj), obj); err != nil {
				_ = c.Create(ctx, obj) // the load continues after errors
			} else {
				obj.Data = map[string]string{"round": strconv.Itoa(i)}
				_ = c.Update(ctx, obj) // it may be a conflict with the operator
			}
			<-time.After(2 * time.Millisecond)
		}
	})
	return l
}

// usage returns the number of goroutines and the bytes of the heap.
func usage() (goroutines int, heap uint64) {
	runtime.GC()
	runtime.GC() // sync.Pool keeps objects for one collection
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return runtime.NumGoroutine(), stats.HeapAlloc
}

func TestSetup_ClusterComesAndGoesUnderLoad(t *testing.T) {
	const rounds, first = 50, 10
	ns := newNamespace(t)
	var running, handlers, overlaps, starts, ends, handled atomic.Int64
	changes := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
	enter := func(n *atomic.Int64) {
		if n.Add(1) > 1 {
			overlaps.Add(1)
		}
	}
	f := newFleet(t, func(c Cluster) []kopf.Option {
		configMaps := kopf.For(&corev1.ConfigMap{})
		kopf.IndexBy(configMaps, "index", func(_ context.Context, req *kopf.Request[configMap]) (map[string]int, error) {
			return map[string]int{req.Object.Name: 1}, nil
		}, kopf.Label(ns))
		configMaps.OnDelete("deleted", func(context.Context, *kopf.Request[configMap]) error { return nil }, kopf.Label(ns)).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[configMap]) error { <-ctx.Done(); return nil }, kopf.Label(ns))
		if c.Name == "east" {
			return []kopf.Option{configMaps.On("changed", changes, func(context.Context, *kopf.Request[configMap]) error { return nil }, kopf.Label(ns))}
		}
		return []kopf.Option{
			configMaps.On("changed", changes, func(_ context.Context, req *kopf.Request[configMap]) error {
				if req.Object.Name == "load-0" { // one object must not have two attempts at a time
					enter(&handlers)
					defer handlers.Add(-1)
					<-time.After(5 * time.Millisecond)
				}
				handled.Add(1)
				return nil
			}, kopf.Label(ns)),
			kopf.OnStartup("starts", func(context.Context) error { enter(&running); starts.Add(1); return nil }),
			kopf.OnCleanup("ends", func(context.Context) error {
				<-time.After(20 * time.Millisecond) // the next engagement must wait
				running.Add(-1)
				ends.Add(1)
				return nil
			}),
		}
	})
	f.log.discards.Store(true) // the heap must not contain the log
	f.add("east", east.Config)
	loads := []*load{startLoad(t, f.WithT, east, ns), startLoad(t, f.WithT, west, ns)}
	var goroutines int
	var heap uint64
	for round := range rounds {
		f.add("west", west.Config)
		f.Eventually(starts.Load).Should(BeEquivalentTo(round+1), "the operator of the round before has ended")
		before := handled.Load()
		f.Eventually(handled.Load).Should(BeNumerically(">", before+3))
		f.remove("west") // the next round does not wait for the end
		if round != first-1 && round != rounds-1 {
			continue
		}
		f.ended("east")
		for _, l := range loads {
			l.paused.Store(true)
		}
		if round == first-1 {
			<-time.After(time.Second) // connections and timers end
			goroutines, heap = usage()
		} else {
			var now int
			var heapNow uint64
			f.Eventually(func(g Gomega) {
				now, heapNow = usage()
				g.Expect(now).To(BeNumerically("<=", goroutines+5), "goroutines")
				g.Expect(heapNow).To(BeNumerically("<=", heap+heap/4), "heap")
			}).Should(Succeed())
			t.Logf("after %d rounds: %d goroutines, %d KiB of heap; after %d rounds: %d goroutines, %d KiB", first, goroutines, heap>>10, rounds, now, heapNow>>10)
		}
		for _, l := range loads {
			l.paused.Store(false)
		}
	}
	f.Expect(overlaps.Load()).To(BeZero(), "operators or attempts of one cluster at a time")
	f.Expect(f.log.find("has failed")).To(BeEmpty())
	f.Expect(starts.Load()).To(BeEquivalentTo(rounds))
	f.Expect(ends.Load()).To(BeEquivalentTo(rounds))
}

// An update of the data has the time of the write, so that the handler measures its delay.
func TestSetup_BlackholedClusterDelaysNoOther(t *testing.T) {
	const updates = 400
	ns := newNamespace(t)
	var mu sync.Mutex
	delays := map[string][]time.Duration{}
	f := newFleet(t, func(c Cluster) []kopf.Option {
		return []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnUpdate("updated", func(_ context.Context, req *kopf.Request[configMap]) error {
			written, err := time.Parse(time.RFC3339Nano, req.Object.Data["written"])
			if err != nil {
				return kopf.Permanent(err)
			}
			mu.Lock()
			defer mu.Unlock()
			delays[c.Name.String()] = append(delays[c.Name.String()], time.Since(written))
			return nil
		}, kopf.Label(ns))}
	})
	proxy, proxied := newProxy(t, f.WithT, west.Config)
	f.add("east", east.Config)
	f.add("west", proxied)
	f.Eventually(f.ready).Should(Succeed())
	count := func(name string) func() int {
		return func() int { mu.Lock(); defer mu.Unlock(); return len(delays[name]) }
	}
	// update changes one object again and again, and returns the 99th percentile of the delays of the handler.
	update := func(name string, cp *controlplane.ControlPlane, n int) time.Duration {
		c, obj := direct(f.WithT, cp), newConfigMap(ns, "one")
		f.Expect(client.IgnoreAlreadyExists(c.Create(t.Context(), obj))).To(Succeed())
		f.Eventually(func(g Gomega) {
			g.Expect(c.Get(t.Context(), keyOf(obj), obj)).To(Succeed())
			g.Expect(obj.Annotations).NotTo(BeEmpty(), "the object is handled")
		}).Should(Succeed())
		begun := count(name)()
		for i := range n {
			f.Expect(c.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"written":%q}}`, time.Now().Format(time.RFC3339Nano))))).To(Succeed())
			f.Eventually(count(name)).WithPolling(time.Millisecond).Should(BeNumerically(">", begun+i))
		}
		mu.Lock()
		defer mu.Unlock()
		sorted := slices.Sorted(slices.Values(delays[name][begun:]))
		return sorted[len(sorted)*99/100]
	}
	healthy := update("east", east, updates)
	update("west", west, 1)
	proxy.freeze()
	c, obj := direct(f.WithT, west), newConfigMap(ns, "one")
	f.Expect(c.Get(t.Context(), keyOf(obj), obj)).To(Succeed())
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"written":%q}}`, time.Now().Format(time.RFC3339Nano)))
	f.Expect(c.Patch(t.Context(), obj, patch)).To(Succeed())
	alone := update("east", east, updates)
	t.Logf("p99 of the delay of %d handlers: %s with two clusters, %s with a blackholed one", updates, healthy, alone)
	f.Expect(alone).To(BeNumerically("<", 10*healthy+time.Second))
	f.Expect(count("west")()).To(Equal(1), "the proxy is frozen")

	// An engagement ends although its cluster does not answer, and the cluster is handled again when it answers.
	f.remove("west")
	f.ended("east")
	proxy.thaw()
	f.add("west", proxied)
	f.Eventually(count("west")).Should(Equal(2))
	f.Consistently(count("west")).Should(Equal(2))
}
