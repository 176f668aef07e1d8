package e2e

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// takeover is the number of objects that a replica takes over. 10000 takes minutes to prepare.
var takeover = flag.Int("takeover", 300, "number of objects that a warm replica takes over")

// A replica is an operator with leader election.
type replica struct {
	*running
	operator *kopf.Operator
	reads    *readRecorder
	writes   atomic.Int64 // requests that change objects, without leases
}

// launchReplica runs a replica that fills its caches while it waits for leadership, unless cold is true.
func launchReplica(ns string, cold, releases bool, options []kopf.Option, setups ...setup) *replica {
	GinkgoHelper()
	r, logs := &replica{reads: &readRecorder{}}, &logRecorder{}
	count := through(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet && !strings.Contains(req.URL.Path, "/leases") {
				r.writes.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	cfg := rest.CopyConfig(cp.Config)
	for _, s := range append(setups, r.reads.setup(), count) {
		s(cfg)
	}
	lease, deadline := time.Minute, 50*time.Second // a busy machine does not cost the leader its Lease
	if !releases {
		lease, deadline = 4*time.Second, 3*time.Second // the next leader waits for its end
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme, Logger: logs.Logger(), Metrics: server.Options{BindAddress: "0"},
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}, NewInformer: watching.NewDrainedInformer},
		Controller:     config.Controller{EnableWarmup: new(!cold)},
		LeaderElection: true, LeaderElectionID: "replicas", LeaderElectionNamespace: ns, LeaderElectionReleaseOnCancel: releases,
		LeaseDuration: &lease, RenewDeadline: &deadline, RetryPeriod: new(100 * time.Millisecond),
	})
	Expect(err).NotTo(HaveOccurred())
	r.operator = kopf.New(mgr, options...)
	Expect(mgr.Add(r.operator)).To(Succeed())
	r.running = launch(mgr, logs)
	return r
}

// warm waits until the caches of a waiting replica are filled.
func (r *replica) warm() {
	GinkgoHelper()
	Expect(r.operator.Readyz(nil)).To(MatchError(ContainSubstring("caches have not synced")))
	Eventually(func() error { return r.operator.Readyz(nil) }).WithTimeout(minute).Should(Succeed())
	Expect(r.reads.requests(isListing)).NotTo(BeEmpty())
	Expect(r.Elected()).NotTo(BeClosed())
}

// A bookmarkFilter drops the bookmarks of watches, except for the one after the initial events. The API server sends the others about once a minute.
type bookmarkFilter struct{ next http.RoundTripper }

func (f bookmarkFilter) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(req)
	if err == nil && isWatch(req.URL) {
		response.Body = &filteredBody{Closer: response.Body, lines: bufio.NewReader(response.Body)}
	}
	return response, err
}

type filteredBody struct {
	io.Closer
	lines *bufio.Reader
	rest  []byte
}

func (b *filteredBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(line, []byte(`"BOOKMARK"`)) || bytes.Contains(line, []byte("initial-events-end")) {
			b.rest = line
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// isRead reports whether a request reads a single widget.
func isRead(u *url.URL) bool { return strings.Contains(u.Path, "/widgets/") }

var _ = Describe("A replica with EnableWarmup that waits for leadership", func() {
	type W = *v1.Widget

	// handlers returns handlers of all kinds, which record the name of the object.
	handlers := func(seen *calls) *kopf.Resource[W] {
		note := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s %s", id, req.Object.Name)
				return nil
			}
		}
		widgets := kopf.For(&v1.Widget{}).
			OnEvent("event", note("event")).
			OnCreate("create", note("create")).OnUpdate("update", note("update")).OnResume("resume", note("resume")).
			OnDelete("delete", note("delete"), kopf.Label("mandatory")).
			OnDelete("optional", note("optional"), kopf.Optional()).
			Timer("timer", daemons.Timer{Interval: time.Hour}, note("timer"), kopf.Label("mandatory")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("daemon %s", req.Object.Name)
				<-ctx.Done()
				return nil
			}, kopf.Label("mandatory"))
		kopf.IndexBy(widgets, "index", func(_ context.Context, req *kopf.Request[W]) (map[string]int, error) {
			seen.notef("index %s", req.Object.Name)
			return map[string]int{req.Object.Name: 1}, nil
		})
		return widgets
	}
	mandatory := func(ns, name string) W {
		obj := widget(ns, name)
		obj.Labels = map[string]string{"mandatory": "true"}
		return obj
	}
	// repeatable are calls for each observed change.
	repeatable := func(call string) bool { return strings.HasPrefix(call, "event ") || strings.HasPrefix(call, "index ") }
	unique := func(seen *calls) []string {
		return slices.Sorted(slices.Values(slices.DeleteFunc(seen.all(), repeatable)))
	}

	// others are the calls of all handlers except for indexes.
	others := func(seen *calls) []string {
		return slices.DeleteFunc(seen.all(), func(call string) bool { return strings.HasPrefix(call, "index ") })
	}

	It("calls only index functions and writes nothing before; afterwards, it handles what the leader has not handled", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		leader := launchReplica(ns, true, false, options(handlers(&calls{})))
		names := []string{"stays", "edited", "removed", "edited-late", "removed-late"}
		objects := map[string]W{}
		for _, name := range names {
			objects[name] = mandatory(ns, name)
		}
		objects["optional"], objects["optional-late"] = widget(ns, "optional"), widget(ns, "optional-late")
		for _, obj := range objects {
			create(ctx, obj)
			handled(ctx, obj)
		}
		next := launchReplica(ns, false, false, options(handlers(seen)))
		next.warm()
		edit(ctx, objects["edited"], func(w W) { w.Spec.Size = 2 })
		remove(ctx, objects["removed"])
		remove(ctx, objects["optional"])
		Eventually(gone(ctx, objects["removed"])).Should(BeTrue())
		Eventually(fresh(ctx, objects["edited"])).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`))))
		Eventually(func() (W, error) {
			cached := widget(ns, "edited")
			return cached, next.GetCache().Get(ctx, keyOf(cached), cached)
		}).Should(HaveField("Spec.Size", 2), "the cache of the waiting replica must follow")
		Eventually(seen.all).Should(ContainElements("index stays", "index edited"))
		Consistently(others).WithArguments(seen).Should(BeEmpty())
		Expect(next.writes.Load()).To(BeZero())

		leader.stop()
		edit(ctx, objects["edited-late"], func(w W) { w.Spec.Size = 3 })
		remove(ctx, objects["removed-late"])
		remove(ctx, objects["optional-late"])
		created := mandatory(ns, "created-late")
		create(ctx, created)
		before := others(seen)
		Expect(next.Elected()).NotTo(BeClosed())
		Expect(before).To(BeEmpty())

		Eventually(next.Elected()).WithTimeout(minute).Should(BeClosed())
		Eventually(gone(ctx, objects["removed-late"])).Should(BeTrue())
		handled(ctx, created)
		want := []string{
			"create created-late", "daemon created-late", "daemon edited", "daemon edited-late", "daemon stays", "delete removed-late",
			"optional removed-late", "resume edited", "resume edited-late", "resume stays",
			"timer created-late", "timer edited", "timer edited-late", "timer stays", "update edited-late",
		}
		Eventually(func() []string { return unique(seen) }).Should(Equal(want))
		Consistently(func() []string { return unique(seen) }).Should(Equal(want))
		Expect(next.log.errors()).To(BeEmpty())
	}, SpecTimeout(2*minute))

	DescribeTable("repeats no handler of the former leader, although its watch lags behind", func(ctx context.Context, change func(ctx context.Context, former *calls, obj W), want ...string) {
		ns, seen, former := newNamespace(ctx), &calls{}, &calls{}
		leader := launchReplica(ns, true, true, options(handlers(former)))
		stays, changed := mandatory(ns, "stays"), mandatory(ns, "changed")
		for _, obj := range []W{stays, changed} {
			create(ctx, obj)
			handled(ctx, obj)
		}
		next := launchReplica(ns, false, true, options(handlers(seen)),
			through(func(next http.RoundTripper) http.RoundTripper { return &laggingTransport{next, 6 * time.Second} }))
		next.warm()
		change(ctx, former, changed)
		leader.stop()
		Eventually(next.Elected()).Should(BeClosed())
		Eventually(unique).WithArguments(seen).WithTimeout(minute).Should(Equal(want))
		Consistently(unique).WithArguments(seen).WithTimeout(8 * time.Second).Should(Equal(want))
	},
		Entry("after an edit", func(ctx context.Context, former *calls, obj W) {
			edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
			Eventually(former.count).WithArguments("update changed").Should(Equal(1))
			Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`))))
		}, "daemon changed", "daemon stays", "resume changed", "resume stays", "timer changed", "timer stays", SpecTimeout(2*minute)),
		Entry("after a deletion", func(ctx context.Context, former *calls, obj W) {
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
			Expect(former.count("delete changed")).To(Equal(1))
		}, "daemon stays", "resume stays", "timer stays", SpecTimeout(2*minute)))

	It("takes over many objects without listing or reading them again", func(ctx context.Context) {
		ns := newNamespace(ctx)
		resource := func(resumed func()) []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("create", func(context.Context, *kopf.Request[W]) error { return nil }).
				OnResume("resume", func(context.Context, *kopf.Request[W]) error { resumed(); return nil }))
		}
		leader := launchReplica(ns, true, true, resource(func() {}))
		var created errgroup.Group
		created.SetLimit(16)
		for i := range *takeover {
			created.Go(func() error { return k8s.Create(ctx, widget(ns, fmt.Sprint("w", i))) })
		}
		Expect(created.Wait()).To(Succeed())
		Eventually(func(g Gomega) {
			var list v1.WidgetList
			g.Expect(k8s.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			g.Expect(slices.DeleteFunc(list.Items, func(w v1.Widget) bool { return w.Annotations[baselineKey] != "" })).To(BeEmpty())
		}).WithTimeout(20 * minute).WithPolling(time.Second).Should(Succeed())

		var mu sync.Mutex
		var resumed []time.Time
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(resumed) }
		next := launchReplica(ns, false, true, resource(func() { mu.Lock(); defer mu.Unlock(); resumed = append(resumed, time.Now()) }),
			func(c *rest.Config) { c.QPS, c.Burst = 20, 30 }, // the defaults of controller-runtime
			through(func(next http.RoundTripper) http.RoundTripper { return bookmarkFilter{next} }))
		next.warm()
		listings := len(next.reads.requests(isListing))
		leader.stop()
		Eventually(next.Elected()).WithPolling(time.Millisecond).Should(BeClosed())
		elected := time.Now()
		Eventually(count).WithTimeout(5 * minute).Should(Equal(*takeover))
		AddReportEntry("takeover", fmt.Sprintf("%d objects: first handler after %s, last one after %s",
			*takeover, resumed[0].Sub(elected).Round(time.Millisecond), resumed[len(resumed)-1].Sub(elected).Round(time.Millisecond)))
		Expect(len(next.reads.requests(isListing))-listings).To(BeNumerically("<=", 2), "the operator reads its epoch and the metadata, and does not list the objects")
		Expect(len(next.reads.requests(isRead))).To(BeNumerically("<", 100), "reads of single objects")
	}, SpecTimeout(30*minute))
})
