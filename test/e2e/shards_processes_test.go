package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
	"github.com/kopf-runtime/kopf-runtime/test/sharder"
)

// A shardAttempt is an attempt of a handler in the ledger of all processes.
type shardAttempt struct {
	shard, object, handler string
	from, to               time.Time
}

func (a shardAttempt) String() string {
	return fmt.Sprintf("%s of %s in %s from %s to %s", a.handler, a.object, a.shard, a.from.Format("05.000"), a.to.Format("05.000"))
}

// attemptsOf returns the attempts of a process. Attempts that have not ended end at a time: that of SIGKILL or SIGSTOP, or now.
func attemptsOf(name string, p *peer, end time.Time) (attempts []shardAttempt) {
	open := map[string]time.Time{}
	for _, one := range p.all() {
		verb, attempt, _ := strings.Cut(one.what, " ")
		object, handler, _ := strings.Cut(attempt, " ")
		switch verb {
		case "begin":
			open[attempt] = one.at
		case "end":
			to := one.at
			if from := open[attempt]; from.Before(end) && to.After(end) {
				to = end
			}
			attempts = append(attempts, shardAttempt{name, object, handler, open[attempt], to})
			delete(open, attempt)
		}
	}
	for attempt, from := range open {
		object, handler, _ := strings.Cut(attempt, " ")
		attempts = append(attempts, shardAttempt{name, object, handler, from, end})
	}
	return attempts
}

// overlaps returns the pairs of attempts for one object in two processes at a time.
func overlaps(all []shardAttempt) (found []string) {
	earlier := map[string][]shardAttempt{}
	for _, a := range all {
		for _, b := range earlier[a.object] {
			if a.shard != b.shard && a.from.Before(b.to) && b.from.Before(a.to) {
				found = append(found, fmt.Sprintf("%s; %s", a, b))
			}
		}
		earlier[a.object] = append(earlier[a.object], a)
	}
	return found
}

const shardTimeout = 30 * time.Minute // with 1 000 objects

const (
	// shardsEnv is the number of objects of the tests of shards. Default: 20.
	shardsEnv = "KOPF_E2E_SHARDED_OBJECTS"
	// payloadEnv is the additional size of each of these objects in bytes. Default: 0.
	payloadEnv = "KOPF_E2E_SHARDED_PAYLOAD"
)

// numberFrom reads a number from the environment.
func numberFrom(variable string, minimum, byDefault int) int {
	text := os.Getenv(variable)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < minimum {
		panic(fmt.Sprintf("%s must be a number of at least %d, got %q", variable, minimum, text))
	}
	return n
}

// payload returns random text, which is different for each object.
func payload(size int) []string {
	if size == 0 {
		return nil
	}
	text := make([]byte, (size+1)/2)
	for i := range text {
		text[i] = byte(rand.N(256))
	}
	return []string{hex.EncodeToString(text)[:size]}
}

const (
	concurrentMoves   = 100 // of the sharder, by default
	concurrentWorkers = 16  // of the operator, by default
)

// drainAll adds the drain label to all objects of a shard, as the sharder does, and calls done after each request.
func drainAll(ctx context.Context, namespace, ring, shard string, widgets []*v1.Widget, done func(*v1.Widget)) {
	GinkgoHelper()
	labels := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q,%q:"true"}}}`, sharding.ShardLabel(ring), shard, sharding.DrainLabel(ring))
	var requests errgroup.Group
	requests.SetLimit(concurrentMoves)
	for _, w := range widgets {
		requests.Go(func() error {
			obj := widget(namespace, w.Name)
			if err := k8s.Patch(ctx, obj, client.RawPatch(types.MergePatchType, labels)); err != nil {
				return err
			}
			done(obj)
			return nil
		})
	}
	Expect(requests.Wait()).To(Succeed())
}

// patchTwice measures the requests of the sharder and of a shard for the release of all objects, without an operator.
func patchTwice(ctx context.Context, namespace, ring, shard string, widgets []*v1.Widget) time.Duration {
	GinkgoHelper()
	began, drained := time.Now(), make(chan *v1.Widget, len(widgets))
	var workers errgroup.Group
	for range concurrentWorkers {
		workers.Go(func() error {
			for obj := range drained {
				release := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null,%q:null},"resourceVersion":%q,"uid":%q}}`,
					sharding.DrainLabel(ring), sharding.ShardLabel(ring), obj.ResourceVersion, obj.UID)
				if err := k8s.Patch(ctx, obj, client.RawPatch(types.MergePatchType, release)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	drainAll(ctx, namespace, ring, shard, widgets, func(obj *v1.Widget) { drained <- obj })
	close(drained)
	Expect(workers.Wait()).To(Succeed())
	return time.Since(began)
}

// isHeld waits until a shard holds its Lease.
func isHeld(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		lease := &coordinationv1.Lease{}
		g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(name)))
	}).Should(Succeed())
}

var _ = Describe("Shards, as processes", func() {
	var objects, payloadSize int
	var limit, work time.Duration // for all objects, and for each handler
	var ns, ring string
	var widgets []*v1.Widget
	var shards map[string]*peer
	var ends map[string]time.Time // when processes were killed or suspended
	var drains atomic.Int64
	var takeovers atomic.Value // the time of the last assignment without a drain
	var startSharder, stopSharder func()

	// needsManyObjects skips a spec that measures times. The nightly workflow runs it with 1 000 objects.
	needsManyObjects := func() {
		GinkgoHelper()
		if objects < 500 {
			Skip("set " + shardsEnv + " to 1000, see make test-shards")
		}
	}
	launch := func(names ...string) {
		for _, name := range names {
			shards[name] = launchShard(ns, shardSetup{Ring: ring, Name: name, Work: work})
		}
	}
	ledger := func() (all []shardAttempt) {
		for name, p := range shards {
			end, ended := ends[name]
			if !ended {
				end = time.Now()
			}
			all = append(all, attemptsOf(name, p, end)...)
		}
		return all
	}
	owners := func(ctx context.Context) (owned map[string]string) {
		GinkgoHelper()
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1.GroupVersion.WithKind("WidgetList"))
		Expect(k8s.List(ctx, list, client.InNamespace(ns))).To(Succeed())
		owned = map[string]string{}
		for i := range list.Items {
			obj := &list.Items[i]
			if _, drained := obj.Labels[sharding.DrainLabel(ring)]; !drained {
				owned[obj.Name] = obj.Labels[sharding.ShardLabel(ring)]
			}
		}
		return owned
	}
	// settled waits until the daemon of each object runs in its shard, and only there, and all objects are in the shards that the sharder chooses.
	settled := func(ctx context.Context, among ...string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			owned := owners(ctx)
			g.Expect(owned).To(HaveLen(objects))
			for name, owner := range owned {
				g.Expect(owner).To(Equal(sharder.Choose(ns+"/"+name, among)), "the shard of %s", name)
				p := shards[owner]
				g.Expect(p.count("begin "+name+" daemon")()).To(Equal(1+p.count("end "+name+" daemon")()), "the daemon of %s in %s", name, owner)
			}
		}).WithTimeout(time.Minute + limit).WithPolling(200 * time.Millisecond).Should(Succeed())
	}
	served := func(size int) {
		GinkgoHelper()
		Eventually(func() (missing []string) {
			done := map[string]bool{}
			for _, p := range shards {
				for _, one := range p.all() {
					done[one.what] = true
				}
			}
			for _, w := range widgets {
				if !done[fmt.Sprintf("done %s %d", w.Name, size)] {
					missing = append(missing, w.Name)
				}
			}
			return missing
		}).WithTimeout(limit).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	}
	// tookOver returns the time from the end of a shard until the sharder has moved its last object.
	tookOver := func(name string) time.Duration {
		GinkgoHelper()
		last, _ := takeovers.Load().(time.Time)
		Expect(last).To(BeTemporally(">", ends[name]), "no object was moved")
		return last.Sub(ends[name])
	}
	// resize edits all objects, 20 a second.
	resize := func(ctx context.Context, size int) {
		GinkgoHelper()
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for _, w := range widgets {
			<-ticker.C
			edit(ctx, w, func(w *v1.Widget) { w.Spec.Size = size })
		}
	}
	writes := func() (all []string) {
		for _, p := range shards {
			for _, one := range p.all() {
				if strings.HasPrefix(one.what, "writes") {
					all = append(all, one.what)
				}
			}
		}
		return all
	}

	BeforeEach(func(ctx context.Context) {
		objects, payloadSize = numberFrom(shardsEnv, 1, 20), numberFrom(payloadEnv, 0, 0)
		work = 300 * time.Millisecond
		limit = time.Minute + time.Duration(objects)*200*time.Millisecond
		ns = newNamespace(ctx)
		ring, shards, ends, widgets = ns, map[string]*peer{}, map[string]time.Time{}, nil
		drains.Store(0)
		obj := kopf.Unstructured(schema.GroupVersionKind{Group: "sharding.timebertt.dev", Version: "v1alpha1", Kind: "ControllerRing"})
		obj.SetName(ring)
		obj.Object["spec"] = map[string]any{"resources": []any{map[string]any{"group": v1.GroupVersion.Group, "resource": "widgets"}}}
		create(ctx, obj)
		s := &sharder.Sharder{
			Client: k8s, Ring: ring, Kinds: []schema.GroupVersionKind{v1.GroupVersion.WithKind("Widget")}, Namespace: ns,
			Concurrency: concurrentMoves,
			Moved: func(_ types.NamespacedName, from, _ string, drain bool) {
				switch {
				case drain:
					drains.Add(1)
				case from != "":
					takeovers.Store(time.Now())
				}
			},
		}
		startSharder = func() {
			running, stop := context.WithCancel(context.WithoutCancel(ctx))
			stopped := make(chan struct{})
			go func() { defer close(stopped); s.Run(running, 200*time.Millisecond) }()
			stopSharder = func() { stop(); <-stopped }
		}
		startSharder()
		DeferCleanup(func() { stopSharder() })
		for i := range objects {
			w := widget(ns, fmt.Sprintf("w%04d", i))
			w.Spec.Tags = payload(payloadSize)
			widgets = append(widgets, w)
			create(ctx, w)
		}
	})

	It("handle each object once at a time, when replicas are killed and suspended", func(ctx context.Context) {
		launch("a", "b", "c")
		settled(ctx, "a", "b", "c")
		served(1)

		ends["a"] = time.Now()
		Expect(shards["a"].Process.Kill()).To(Succeed())
		resize(ctx, 2)
		served(2)
		AddReportEntry("after SIGKILL", fmt.Sprintf("Lease of %s, objects moved after %s, all edits handled after %s", shardLease, tookOver("a"), time.Since(ends["a"])))

		resize(ctx, 3)
		Eventually(shards["b"].count("begin")).Should(BeNumerically(">", 0))
		ends["b"] = time.Now()
		Expect(shards["b"].Process.Signal(syscall.SIGSTOP)).To(Succeed())
		resize(ctx, 4)
		served(4)
		AddReportEntry("after SIGSTOP", fmt.Sprintf("Lease of %s, objects moved after %s, all edits handled after %s", shardLease, tookOver("b"), time.Since(ends["b"])))

		continued := time.Now()
		Expect(shards["b"].Process.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(shards["b"].exited).WithTimeout(time.Minute).Should(BeClosed(), "a shard that has lost its Lease must stop")
		Expect(shards["b"].last("fails").what).To(ContainSubstring("the shard has lost its Lease"))
		for _, one := range shards["b"].all() {
			if one.at.After(continued) {
				Expect(one.what).NotTo(HavePrefix("begin"), "no handler may begin after the suspension")
				Expect(one.what).NotTo(HavePrefix("writes"), "nothing may be written after the suspension")
			}
		}
		settled(ctx, "c")
		for _, w := range widgets {
			handled(ctx, w)
		}
		all := ledger()
		AddReportEntry("attempts", fmt.Sprint(len(all)))
		Expect(overlaps(all)).To(BeEmpty())
	}, SpecTimeout(shardTimeout))

	It("move objects with one request each, from one replica to five and to two", func(ctx context.Context) {
		launch("a")
		settled(ctx, "a")
		served(1)
		for _, w := range widgets {
			handled(ctx, w)
		}
		before := len(writes())
		launch("b", "c", "d", "e")
		settled(ctx, "a", "b", "c", "d", "e")
		for _, name := range []string{"a", "c", "e"} {
			Expect(shards[name].Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(shards[name].exited).WithTimeout(time.Minute).Should(BeClosed())
			Expect(shards[name].count("fails")()).To(BeZero())
		}
		settled(ctx, "b", "d")

		moves := writes()[0:]
		Expect(moves).To(HaveLen(before+int(drains.Load())), "each drain must need one request")
		releases := slices.DeleteFunc(moves, func(one string) bool { return !strings.Contains(one, sharding.DrainLabel(ring)) })
		Expect(releases).To(HaveLen(int(drains.Load())))
		Expect(drains.Load()).To(BeNumerically(">", 0))
		for _, one := range releases {
			_, body, _ := strings.Cut(one, "{")
			Expect("{" + body).To(MatchRegexp(`^\{"metadata":\{"labels":\{"drain\.[^"]*":null,"shard\.[^"]*":null\},"resourceVersion":"\d+","uid":"[^"]*"\}\}$`))
		}
		AddReportEntry("drains", fmt.Sprint(drains.Load()))

		resize(ctx, 2)
		served(2)
		for _, w := range widgets {
			handled(ctx, w)
		}
		Expect(overlaps(ledger())).To(BeEmpty())
		done := 0
		for _, p := range shards {
			done += p.count("done ")()
		}
		Expect(done).To(Equal(2*objects), "each change must be handled exactly once")
	}, SpecTimeout(shardTimeout))

	It("share the load of one process", func(ctx context.Context) {
		needsManyObjects()
		launch("one")
		settled(ctx, "one")
		alone := during([]*peer{shards["one"]}, func() {
			resize(ctx, 2)
			served(2)
		})
		AddReportEntry("one process", alone[0].String())

		launch("two", "three")
		settled(ctx, "one", "two", "three")
		shared := during([]*peer{shards["one"], shards["two"], shards["three"]}, func() {
			resize(ctx, 3)
			served(3)
		})
		for i, one := range shared {
			AddReportEntry(fmt.Sprintf("shard %d of 3", i+1), fmt.Sprintf("%s: %.2f of the CPU time of one process", one, one.cpu.Seconds()/alone[0].cpu.Seconds()))
		}

		Expect(overlaps(ledger())).To(BeEmpty())
	}, SpecTimeout(shardTimeout))

	It("release all objects of a shard", func(ctx context.Context) {
		needsManyObjects()
		work = 0
		for _, name := range []string{"one", "two", "three"} {
			launch(name)
			settled(ctx, name)
			stopSharder()
			began := time.Now()
			drainAll(ctx, ns, ring, name, widgets, func(*v1.Widget) {})
			drained := time.Since(began)
			Eventually(shards[name].count("released ")).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(Equal(objects)) // without requests
			released := shards[name].last("released ").at.Sub(began)
			for _, w := range widgets {
				Expect(k8s.Get(ctx, client.ObjectKeyFromObject(w), w)).To(Succeed())
				Expect(w.Labels).NotTo(HaveKey(HavePrefix("drain.")))
			}
			Expect(shards[name].Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(shards[name].exited).WithTimeout(time.Minute).Should(BeClosed())
			plain := patchTwice(ctx, ns, ring, name, widgets)
			AddReportEntry("graceful release", fmt.Sprintf("%d objects: %d ms for the drain labels, %d ms until the last release; %d ms for the same requests without an operator: ratio %.2f",
				objects, drained.Milliseconds(), released.Milliseconds(), plain.Milliseconds(), released.Seconds()/plain.Seconds()))
			startSharder()
		}
		Expect(overlaps(ledger())).To(BeEmpty())
	}, SpecTimeout(shardTimeout))

	It("hand over all objects when a shard stops", func(ctx context.Context) {
		needsManyObjects()
		work = 0
		names := []string{"one", "two", "three", "four"}
		launch(names[0])
		settled(ctx, names[0])
		for i, name := range names[1:] {
			stopSharder()
			launch(name)
			isHeld(ctx, ns, name)
			began := time.Now()
			Expect(shards[names[i]].Process.Signal(syscall.SIGTERM)).To(Succeed())
			ends[names[i]] = began
			Eventually(shards[names[i]].exited).WithTimeout(time.Minute).WithPolling(5 * time.Millisecond).Should(BeClosed())
			exited := time.Since(began)
			startSharder() // the real one watches the Leases
			settled(ctx, name)
			moved, started := tookOver(names[i]), shards[name].last("begin ").at.Sub(began)
			AddReportEntry("graceful stop", fmt.Sprintf("%d objects: the process has ended after %d ms, the last object is assigned after %d ms, and its daemon starts after %d ms",
				objects, exited.Milliseconds(), moved.Milliseconds(), started.Milliseconds()))
			delete(ends, names[i]) // it has ended its attempts itself
		}
		Expect(overlaps(ledger())).To(BeEmpty())
	}, SpecTimeout(shardTimeout))

	It("need memory only for their own objects", func(ctx context.Context) {
		if payloadSize == 0 {
			Skip("set " + payloadEnv + ", see make test-shards-memory")
		}
		work = 0
		// restart starts the shards again. They list their objects at the start, because the sharder does not move objects between the processes.
		restart := func(names ...string) {
			GinkgoHelper()
			stopSharder()
			for _, name := range names {
				Expect(shards[name].Process.Signal(syscall.SIGTERM)).To(Succeed())
				Eventually(shards[name].exited).WithTimeout(time.Minute).Should(BeClosed())
			}
			launch(names...)
			settled(ctx, names...)
		}
		launch("one")
		served(1)
		settled(ctx, "one")
		for _, w := range widgets {
			handled(ctx, w)
		}
		restart("one")
		alone := memoryOf(shards["one"])
		AddReportEntry("one process", alone.String())
		Expect(shards["one"].Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(shards["one"].exited).WithTimeout(time.Minute).Should(BeClosed())

		names := []string{"a", "b", "c"}
		launch(names...)
		for _, name := range names {
			isHeld(ctx, ns, name)
		}
		startSharder()
		settled(ctx, names...)
		moved := map[string]shardMemory{}
		for _, name := range names {
			moved[name] = memoryOf(shards[name])
		}
		restart(names...)
		for _, name := range names {
			one := memoryOf(shards[name])
			AddReportEntry("shard "+name, fmt.Sprintf("%d objects: %s; before the restart: %s", shards[name].count("begin")(), one, moved[name]))
			ratio := func(shard, whole int) float64 { return float64(shard) / float64(whole) }
			AddReportEntry("shard "+name, fmt.Sprintf("of one process: peak %.2f, resident %.2f, after a collection %.2f, heap %.2f",
				ratio(one.peak, alone.peak), ratio(one.resident, alone.resident), ratio(one.collected, alone.collected), ratio(one.heap, alone.heap)))
			if alone.heap > 100 { // otherwise, most of the heap does not depend on the objects
				Expect(ratio(one.heap, alone.heap)).To(BeNumerically("<", 1.0/3+0.1), "shard %s keeps other objects", name)
			}
		}
	}, SpecTimeout(shardTimeout))
})
