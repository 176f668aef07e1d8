package e2e

import (
	"context"
	"fmt"
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

// shardsEnv is the number of objects of the tests of shards. Default: 20.
const shardsEnv = "KOPF_E2E_SHARDED_OBJECTS"

func shardedObjects() int {
	text := os.Getenv(shardsEnv)
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("%s must be a positive number, got %q", shardsEnv, text))
	}
	return n
}

var _ = Describe("Shards, as processes", func() {
	var objects int
	var limit time.Duration // for all objects
	var ns, ring string
	var widgets []*v1.Widget
	var shards map[string]*peer
	var ends map[string]time.Time // when processes were killed or suspended
	var drains atomic.Int64
	var stopSharder func()

	launch := func(names ...string) {
		for _, name := range names {
			shards[name] = launchShard(ns, shardSetup{Ring: ring, Name: name, Work: 300 * time.Millisecond})
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
		list := &v1.WidgetList{}
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
	// settled waits until the daemon of each object runs in its shard, and only there, and each of the shards has objects.
	settled := func(ctx context.Context, among ...string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			owned := owners(ctx)
			g.Expect(owned).To(HaveLen(objects))
			used := map[string]bool{}
			for name, owner := range owned {
				used[owner] = true
				p := shards[owner]
				g.Expect(p).NotTo(BeNil(), "%s belongs to %q", name, owner)
				g.Expect(p.count("begin "+name+" daemon")()).To(Equal(1+p.count("end "+name+" daemon")()), "the daemon of %s in %s", name, owner)
			}
			for owner := range used {
				g.Expect(among).To(ContainElement(owner))
			}
			g.Expect(used).To(HaveLen(len(among)))
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
		objects = shardedObjects()
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
			Moved: func(_ types.NamespacedName, _, _ string, drain bool) {
				if drain {
					drains.Add(1)
				}
			},
		}
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		stopped := make(chan struct{})
		go func() { defer close(stopped); s.Run(running, 200*time.Millisecond) }()
		stopSharder = func() { stop(); <-stopped }
		DeferCleanup(func() { stopSharder() })
		for i := range objects {
			w := widget(ns, fmt.Sprintf("w%04d", i))
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
		AddReportEntry("all objects are served after SIGKILL within", time.Since(ends["a"]).String())

		resize(ctx, 3)
		Eventually(shards["b"].count("begin")).Should(BeNumerically(">", 0))
		ends["b"] = time.Now()
		Expect(shards["b"].Process.Signal(syscall.SIGSTOP)).To(Succeed())
		resize(ctx, 4)
		served(4)
		AddReportEntry("all objects are served after SIGSTOP within", time.Since(ends["b"]).String())

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

	It("share the load of one process, and release objects quickly", func(ctx context.Context) {
		if objects < 500 {
			Skip("set " + shardsEnv + " to 1000, see make test-shards")
		}
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

		for _, name := range []string{"two", "three"} {
			Expect(shards[name].Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(shards[name].exited).WithTimeout(time.Minute).Should(BeClosed())
		}
		settled(ctx, "one")
		stopSharder()
		labels := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, sharding.DrainLabel(ring)))
		began := time.Now()
		var requests errgroup.Group
		requests.SetLimit(16)
		for _, w := range widgets {
			requests.Go(func() error { return k8s.Patch(ctx, widget(ns, w.Name), labels) })
		}
		Expect(requests.Wait()).To(Succeed())
		labeled := time.Now()
		Eventually(func(g Gomega) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(v1.GroupVersion.WithKind("WidgetList"))
			g.Expect(k8s.List(ctx, list, client.InNamespace(ns), client.HasLabels{sharding.DrainLabel(ring)})).To(Succeed())
			g.Expect(list.Items).To(BeEmpty())
		}).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(Succeed())
		AddReportEntry("graceful release", fmt.Sprintf("%d objects were drained within %s, and all were released %s after the last drain",
			objects, labeled.Sub(began).Round(time.Millisecond), time.Since(labeled).Round(time.Millisecond)))
		Expect(overlaps(ledger())).To(BeEmpty())
	}, SpecTimeout(shardTimeout))
})
