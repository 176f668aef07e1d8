package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type (
	untypedObject  = *unstructured.Unstructured
	untypedRequest = *kopf.Request[*unstructured.Unstructured]
)

// eventsOf returns the Events about an object, as "type reason action: note".
func eventsOf(ctx context.Context, obj client.Object) func() ([]string, error) {
	return func() ([]string, error) {
		var list eventsv1.EventList
		if err := k8s.List(ctx, &list, client.InNamespace(obj.GetNamespace())); err != nil {
			return nil, err
		}
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == obj.GetUID() {
				out = append(out, e.Type+" "+e.Reason+" "+e.Action+": "+e.Note)
			}
		}
		return out, nil
	}
}

var _ = Describe("Sub-handlers", func() {
	type W = *v1.Widget
	const never = time.Hour

	It("have results and retries, also if one of them fails once (C-6, SUB-01, SUB-08, SUB-09, SUB-10, RES-01)", func(ctx context.Context) {
		ns, seen, read := newNamespace(ctx), &calls{}, make(chan struct{})
		obj := untyped(widgetGVK, ns, "one")
		sub := func(until int) untypedHandler {
			return func(ctx context.Context, req untypedRequest) error {
				seen.notef("%s#%d", req.Reason, req.Attempt.Number)
				if req.Attempt.Number > 0 {
					awaitClosed(ctx, read) // the records remain until the spec has read them
				}
				if req.Attempt.Number < until {
					return kopf.Temporary(errOutOfOrder, 500*time.Millisecond)
				}
				req.SetResult(map[string]any{"tries": req.Attempt.Number + 1})
				return nil
			}
		}
		op := start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("cr", func(_ context.Context, req untypedRequest) error {
				seen.notef("cr#%d", req.Attempt.Number)
				req.Sub("s1", sub(0))
				req.Sub("s2", sub(1))
				req.SetResult("made")
				return nil
			})))
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "cr/s2")).Should(HaveField("Retries", 1))
		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(records(now)).To(ConsistOf("cr", "cr.s1", "cr.s2"), "SUB-01 [wire]: the parent and each sub-handler must have a record")
		Expect(recordOf(ctx, obj, "cr/s1")()).To(And(HaveField("Success", true), HaveField("Retries", 1), HaveField("Purpose", "create")))
		Expect(recordOf(ctx, obj, "cr")()).To(And(
			HaveField("Success", false), HaveField("Failure", false), HaveField("Purpose", "create"), HaveField("Retries", 0),
			HaveField("Subrefs", Equal([]string{"cr/s1", "cr/s2"})), HaveField("Delayed", Not(BeZero()))))
		status, _, err := unstructured.NestedMap(now.Object, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(map[string]any{"cr/s1": map[string]any{"tries": int64(1)}}), "SUB-10: the result of the parent must be stored after all sub-handlers have finished")

		close(read)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"cr#0", "create#0", "create#0", "cr#0", "create#1"}))
		now, err = fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		status, _, err = unstructured.NestedMap(now.Object, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(map[string]any{
			"cr/s1": map[string]any{"tries": int64(1)}, "cr/s2": map[string]any{"tries": int64(2)}, "cr": "made",
		}))
		Eventually(op.log.find).WithArguments("Handled", `"succeeded"=1`, `"failed"=0`).Should(HaveLen(1), "SUB-16: sub-handlers must not count in the log line")
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("are called one by one if the lifecycle selects one handler at a time (C-6, SUB-07, LIFE-08)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		start(ns, options(kopf.WithLifecycle(progress.Asap), kopf.For(&v1.Widget{}).
			OnCreate("cr", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("cr")
				req.Sub("s1", ok[W](seen, "s1"))
				req.Sub("s2", failsUntil[W](seen, "s2", 1, kopf.Temporary(errOutOfOrder, 0)))
				return nil
			})))
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"cr", "s1:create", "cr", "s2:create#0", "cr", "s2:create#1"}))
	}, SpecTimeout(minute))

	It("of any depth continue after restarts; finished sub-handlers are not called again (SUB-01, SUB-07, SUB-12, SUB-13, B-24)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var broken atomic.Bool
		broken.Store(true)
		leaf := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s#%d", id, req.Attempt.Number)
				if id == "b" && broken.Load() {
					return kopf.Temporary(errOutOfOrder, 200*time.Millisecond)
				}
				return nil
			}
		}
		declare := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
					req.Sub("q", func(_ context.Context, req *kopf.Request[W]) error {
						req.Sub("r", func(_ context.Context, req *kopf.Request[W]) error {
							req.Sub("a", leaf("a"))
							req.Sub("b", leaf("b"))
							return nil
						}, kopf.Retries(1))
						req.Sub("c", leaf("c"))
						return nil
					}, kopf.Retries(1))
					return nil
				}, kopf.Retries(1)).
				OnCreate("beside", ok[W](seen, "beside")))
		}
		obj := widget(ns, "one")
		tried := 0
		for run := range 3 {
			op := start(ns, declare())
			if run == 0 {
				create(ctx, obj)
			}
			Eventually(func(g Gomega) {
				record, err := recordOf(ctx, obj, "p/q/r/b")()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(record).NotTo(BeNil())
				g.Expect(record.Retries).To(BeNumerically(">=", tried+2))
				tried = record.Retries
			}).Should(Succeed())
			op.stop()
			record, err := recordOf(ctx, obj, "p/q/r/b")()
			Expect(err).NotTo(HaveOccurred())
			tried = record.Retries
		}
		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(records(now)).To(ConsistOf("p", "p.q", "p.q.r", "p.q.r.a", "p.q.r.b", "p.q.c", "beside"))
		Expect(recordOf(ctx, obj, "p")()).To(HaveField("Subrefs", Equal([]string{"p/q", "p/q/c", "p/q/r", "p/q/r/a", "p/q/r/b"})))

		broken.Store(false)
		op := start(ns, declare())
		handled(ctx, obj)
		Expect(seen.count("a#0")).To(Equal(1))
		Expect(seen.count("c#0")).To(Equal(1))
		Expect(seen.count("beside:create")).To(Equal(1))
		all := slices.DeleteFunc(seen.all(), func(entry string) bool { return !strings.HasPrefix(entry, "b#") })
		Expect(all).To(HaveLen(tried+1), "the count of attempts must continue after the restart")
		Eventually(func() []string { return op.log.find("Handled", `"succeeded"=2`, `"failed"=0`) }).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("that are unfinished do not count as retries of their parent (B-24, SUB-14, SE-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("strict", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("strict#%d", req.Attempt.Number)
				req.Sub("s", failsUntil[W](seen, "strict/s", 3, kopf.Temporary(errOutOfOrder, 100*time.Millisecond)))
				return nil
			}, kopf.Retries(1))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.count("strict/s:create#3")).To(Equal(1))
		Expect(seen.all()).To(ContainElement("strict#0"))
		Expect(seen.all()).NotTo(ContainElement("strict#1"))
	}, SpecTimeout(minute))

	It("wait until their parent has succeeded; failures of the parent count as retries (SUB-03, SUB-04, B-24, SE-07)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		parent := func(id string, err error) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s#%d", id, req.Attempt.Number)
				req.Sub("s", ok[W](seen, id+"/s"))
				if req.Attempt.Number == 0 {
					return err
				}
				return nil
			}
		}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("again", parent("again", kopf.Temporary(errOutOfOrder, 0))).
			OnCreate("failed", parent("failed", kopf.Permanent(errOutOfOrder))).
			OnCreate("ignored", parent("ignored", errOutOfOrder), kopf.ErrorMode(progress.ErrorsIgnored))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(ConsistOf("again#0", "failed#0", "ignored#0", "again#1", "again/s:create"))
	}, SpecTimeout(minute))

	It("that have failed permanently do not fail their parent (SUB-11)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnCreate("p", func(_ context.Context, req untypedRequest) error {
				req.Sub("bad", fails[untypedObject](seen, "bad", kopf.Permanent(errOutOfOrder)))
				req.Sub("limited", fails[untypedObject](seen, "limited", errOutOfOrder), kopf.Retries(2), kopf.Backoff(0))
				req.Sub("good", ok[untypedObject](seen, "good"))
				req.SetResult("done")
				return nil
			})))
		obj := untyped(widgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"bad:create#0", "limited:create#0", "good:create", "limited:create#1"}))
		Expect(valueAt(ctx, obj, "status", "p")()).To(Equal("done"))
		Expect(op.log.find(`"handler"="p/bad"`, "failed permanently")).To(HaveLen(1))
		Eventually(op.log.find).WithArguments("Handled", `"succeeded"=1`, `"failed"=0`).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("that are no longer declared are not awaited, and their records are removed (SUB-10, SUB-12)", func(ctx context.Context) {
		ns, seen, read := newNamespace(ctx), &calls{}, make(chan struct{})
		again := failsUntil[W](seen, "new", 1, kopf.Temporary(errOutOfOrder, 500*time.Millisecond))
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
				if seen.count("old:create#0") == 0 {
					req.Sub("old", func(ctx context.Context, req *kopf.Request[W]) error {
						req.Sub("deep", ok[W](seen, "deep"))
						return fails[W](seen, "old", kopf.Temporary(errOutOfOrder, never))(ctx, req)
					})
				}
				req.Sub("new", func(ctx context.Context, req *kopf.Request[W]) error {
					if req.Attempt.Number > 0 {
						awaitClosed(ctx, read) // the record of the old sub-handler remains until the spec has read it
					}
					return again(ctx, req)
				})
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "p/old")).Should(HaveField("Retries", 1))
		close(read)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"old:create#0", "new:create#0", "new:create#1"}))
	}, SpecTimeout(minute))

	It("support filters, and have the reasons of their parent (SUB-07, SUB-15, HND-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			On("any", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}, func(_ context.Context, req *kopf.Request[W]) error {
				req.Sub("all", ok[W](seen, "all"))
				req.Sub("gold", ok[W](seen, "gold"), kopf.Label("tier", filter.Equal("gold")))
				req.Sub("size", ok[W](seen, "size"), kopf.Field("spec.size"))
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"all:create", "size:create"}))
		edit(ctx, obj, func(w W) { w.Labels = map[string]string{"tier": "gold"} })
		Eventually(seen.all).Should(Equal([]string{"all:create", "size:create", "all:update", "gold:update"}))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(func() []string { return seen.all()[4:] }).Should(Equal([]string{"all:update", "gold:update", "size:update"}))
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()[7:]).To(Equal([]string{"all:delete", "gold:delete", "size:delete"}))
	}, SpecTimeout(minute))

	DescribeTable("with an invalid declaration fail their parent permanently, with a log line and an Event (B-21, SUB-02)",
		func(ctx context.Context, declare func(*kopf.Request[W]), complaint string) {
			ns, seen := newNamespace(ctx), &calls{}
			op := start(ns, options(kopf.For(&v1.Widget{}).
				OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("p")
					req.Sub("good", ok[W](seen, "good"))
					declare(req)
					return nil
				}).
				OnCreate("beside", ok[W](seen, "beside"))))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(Equal([]string{"p", "beside:create"}), "no sub-handler may be called; other handlers must be called")
			Expect(op.log.find("failed permanently", `"handler"="p"`, complaint)).To(HaveLen(1))
			Eventually(eventsOf(ctx, obj)).Should(ConsistOf(And(HavePrefix("Warning "), ContainSubstring(complaint))))
		},
		Entry("a duplicate id", SpecTimeout(minute), func(req *kopf.Request[*v1.Widget]) {
			req.Sub("good", ok[*v1.Widget](&calls{}, ""))
		}, "p/good"),
		Entry("no id", SpecTimeout(minute), func(req *kopf.Request[*v1.Widget]) {
			req.Sub("", ok[*v1.Widget](&calls{}, ""))
		}, "the id is empty"),
		Entry("no function", SpecTimeout(minute), func(req *kopf.Request[*v1.Widget]) {
			req.Sub("none", nil)
		}, "none"),
		Entry("an id that cannot be stored", SpecTimeout(minute), func(req *kopf.Request[*v1.Widget]) {
			req.Sub("ümlaut", ok[*v1.Widget](&calls{}, ""))
		}, "ümlaut"),
		Entry("an option without an effect", SpecTimeout(minute), func(req *kopf.Request[*v1.Widget]) {
			req.Sub("odd", ok[*v1.Widget](&calls{}, ""), kopf.Interval(time.Second))
		}, "odd"),
	)

	It("change the object in the same write as other handlers (SUB-07, B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
				req.Object.Spec.Tags = []string{"p"}
				for _, id := range []string{"a", "b"} {
					req.Sub(id, func(_ context.Context, req *kopf.Request[W]) error {
						req.Object.Spec.Tags = append(req.Object.Spec.Tags, id)
						req.Object.Status.Log = append(req.Object.Status.Log, id)
						return nil
					})
				}
				return nil
			}).
			OnUpdate("updated", ok[W](seen, "updated"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(And(
			HaveField("Spec.Tags", Equal([]string{"p", "a", "b"})), HaveField("Status.Log", Equal([]string{"a", "b"}))))
		Consistently(seen.all, quietTime).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("are written one by one if the checkpoint interval is zero (B-14, SUB-07)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		written := func(ids ...string) {
			for _, id := range ids {
				record, err := recordOf(context.Background(), obj, id)()
				seen.notef("%s written: %t", id, err == nil && record != nil && record.Success)
			}
		}
		start(ns, options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
			OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
				req.Object.Spec.Tags = []string{"p"}
				for _, id := range []string{"a", "b", "c"} {
					req.Sub(id, func(_ context.Context, req *kopf.Request[W]) error {
						if id != "a" {
							written("p/" + string(id[0]-1))
						}
						req.Object.Spec.Tags = append(req.Object.Spec.Tags, id)
						req.SetResult(id)
						return nil
					})
				}
				return nil
			}).
			OnCreate("next", func(context.Context, *kopf.Request[W]) error {
				written("p/c", "p")
				return nil
			}).
			OnUpdate("updated", ok[W](seen, "updated"))))
		create(ctx, obj)
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"p/a written: true", "p/b written: true", "p/c written: true", "p written: true"}))
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Tags", Equal([]string{"p", "a", "b", "c"})))
	}, SpecTimeout(minute))

	DescribeTable("whose change is rejected fail, and are retried (decision 0005)",
		func(ctx context.Context, checkpoint time.Duration) {
			ns, seen := newNamespace(ctx), &calls{}
			op := start(ns, options(kopf.WithCheckpoint(checkpoint), kopf.For(&v1.Widget{}).
				OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
					req.Object.Status.Phase = "made by p"
					req.Sub("a", ok[W](seen, "a"))
					req.Sub("b", func(_ context.Context, req *kopf.Request[W]) error {
						seen.notef("b#%d", req.Attempt.Number)
						if req.Object.Spec.Size = 5000; req.Attempt.Number > 1 {
							req.Object.Spec.Size = 50
						}
						return nil
					}, kopf.Backoff(50*time.Millisecond))
					req.Sub("c", ok[W](seen, "c"))
					return nil
				})))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(ConsistOf("a:create", "b#0", "b#1", "b#2", "c:create"))
			Expect(fresh(ctx, obj)()).To(And(HaveField("Spec.Size", 50), HaveField("Status.Phase", "made by p")))
			Eventually(op.log.find).WithArguments("rejects the change", `"handler"="p/b"`).Should(HaveLen(2))
		},
		Entry("at the end of the reconcile", SpecTimeout(minute), 100*time.Millisecond),
		Entry("during the reconcile", SpecTimeout(minute), time.Duration(0)),
	)

	DescribeTable("do not hide that the change of their parent is rejected (decision 0005)",
		func(ctx context.Context, checkpoint time.Duration) {
			ns, seen := newNamespace(ctx), &calls{}
			op := start(ns, options(kopf.WithCheckpoint(checkpoint), kopf.For(&v1.Widget{}).
				OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("p#%d", req.Attempt.Number)
					if req.Object.Spec.Size = 5000; req.Attempt.Number > 1 {
						req.Object.Spec.Size = 50
					}
					req.Sub("a", ok[W](seen, "a"))
					return nil
				}, kopf.Backoff(50*time.Millisecond))))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(ConsistOf("p#0", "p#1", "p#2", "a:create"))
			Expect(fresh(ctx, obj)()).To(HaveField("Spec.Size", 50))
			Eventually(op.log.find).WithArguments("rejects the change", `"handler"="p"`).Should(HaveLen(2))
		},
		Entry("at the end of the reconcile", SpecTimeout(minute), 100*time.Millisecond),
		Entry("during the reconcile", SpecTimeout(minute), time.Duration(0)),
	)

	It("are not called again when their outcome could not be written (B-05, SE-16)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
			OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
				for _, id := range []string{"a", "b", "c"} {
					req.Sub(id, func(_ context.Context, req *kopf.Request[W]) error {
						seen.notef("%s", id)
						req.Object.Status.Log = append(req.Object.Status.Log, id)
						return nil
					})
				}
				return nil
			})), withFaults(func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error) {
			if n%3 != 0 {
				return unsent(r, "injected: connection refused")
			}
			return next.RoundTrip(r)
		}))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"a", "b", "c"}))
		Expect(fresh(ctx, obj)()).To(HaveField("Status.Log", Equal([]string{"a", "b", "c"})))
	}, SpecTimeout(minute))

	It("that were called for an update are called when the update is reverted (B-01, B-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](&calls{}, "created")).
			OnUpdate("p", func(_ context.Context, req *kopf.Request[W]) error {
				req.Sub("quick", func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("quick %d", req.Object.Spec.Size)
					return nil
				})
				req.Sub("late", failsUntil[W](&calls{}, "late", 1, kopf.Temporary(errOutOfOrder, time.Second)))
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(recordOf(ctx, obj, "p/late")).Should(HaveField("Retries", 1))
		edit(ctx, obj, func(w W) { w.Spec.Size = 1 })
		Eventually(seen.all).Should(Equal([]string{"quick 2", "quick 1"}))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 3 })
		Eventually(seen.all).Should(Equal([]string{"quick 2", "quick 1", "quick 3"}))
		handled(ctx, obj)
	}, SpecTimeout(minute))

	It("are not available to handlers without progress (HND-22, SUB-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s", id)
				req.Sub("s", ok[W](seen, "s"))
				return nil
			}
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", declare("record")).OnReconcile("sync", declare("sync"))))
		create(ctx, widget(ns, "one"))
		Eventually(seen.all).Should(ConsistOf("record", "sync"))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
		for _, id := range []string{"record", "sync"} {
			Expect(op.log.find(`"handler"="`+id+`"`, "cannot have sub-handlers")).To(HaveLen(1), id)
		}
	}, SpecTimeout(minute))
})
