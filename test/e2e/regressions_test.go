package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// These specs use operators in unusual but valid ways. Each spec is a regression test for a bug.

var _ = Describe("A predicate", func() {
	type W = *v1.Widget

	DescribeTable("may drop our own writes and blocked deletions (decision 0003)",
		func(ctx context.Context, filter predicate.Predicate) {
			ns, seen := newNamespace(ctx), &calls{}
			op := start(ns, options(kopf.For(&v1.Widget{}, kopf.WithPredicates(filter)).
				OnCreate("created", ok[W](seen, "created")).
				OnDelete("deleted", ok[W](seen, "deleted"))))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
			Consistently(seen.all, quietTime).Should(Equal([]string{"created:create", "deleted:delete"}))
			Expect(op.log.errors()).To(BeEmpty())
		},
		Entry("generations only", SpecTimeout(minute), predicate.GenerationChangedPredicate{}),
		Entry("labels only", SpecTimeout(minute), predicate.LabelChangedPredicate{}),
		Entry("no changes at all", SpecTimeout(minute), predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		}),
	)

	It("may drop objects that lose a label, which are not handled as deleted (B-25)", func(ctx context.Context) {
		ns, seen, logs := newNamespace(ctx), &calls{}, &logRecorder{}
		gold := map[string]string{"tier": "gold"}
		mgr, err := manager.New(cp.Config, manager.Options{
			Scheme: scheme, Logger: logs.Logger(), Metrics: server.Options{BindAddress: "0"},
			Cache: cache.Options{
				DefaultNamespaces: map[string]cache.Config{ns: {}},
				ByObject:          map[client.Object]cache.ByObject{&v1.Widget{}: {Label: labels.SelectorFromSet(gold)}},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(kopf.SetupWithManager(mgr, kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](seen, "created")).
			OnUpdate("updated", ok[W](seen, "updated")).
			OnDelete("optional", ok[W](seen, "optional"), kopf.Optional()))).To(Succeed())
		launch(mgr, logs)
		obj := widget(ns, "one")
		obj.Labels = gold
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Labels = nil })
		Consistently(seen.all).Should(Equal([]string{"created:create"}))

		edit(ctx, obj, func(w W) { w.Labels, w.Spec.Size = gold, 2 })
		Eventually(seen.all).Should(Equal([]string{"created:create", "updated:update"}))
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"created:create", "updated:update", "optional:delete"}))
		Expect(logs.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("A value that an object cannot store", func() {
	type W = *v1.Widget
	const never = time.Hour

	It("as a result fails the handler, and blocks neither other handlers nor a deletion (decision 0005)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		// The schema has fields with the names of these handlers: one is a string, the other a list.
		misfit := func(id string, result any) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s#%d", id, req.Attempt.Number)
				req.SetResult(result)
				return nil
			}
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("phase", misfit("phase", map[string]any{"ready": true}), kopf.Backoff(never)).
			OnCreate("good", misfit("good", "kept")).
			OnDelete("log", misfit("log", "text"), kopf.Retries(2), kopf.Backoff(50*millisecond))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "phase")).Should(And(
			HaveField("Retries", 1), HaveField("Message", ContainSubstring("must be of type string"))))
		Expect(recordOf(ctx, obj, "good")()).To(HaveField("Success", true))
		Expect(valueAt(ctx, untyped(widgetGVK, ns, "one"), "status")()).To(Equal(map[string]any{"good": "kept"}))
		Consistently(seen.all, quietTime).Should(Equal([]string{"phase#0", "good#0"}))

		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"phase#0", "good#0", "log#0", "log#1"}))
		Eventually(op.log.find).WithArguments("rejected the handler's changes", `"handler"="phase"`).Should(HaveLen(1))
		Eventually(op.log.find).WithArguments("rejected the handler's changes", `"handler"="log"`).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("as the text of an error is shortened", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		long := errors.New("it began with " + strings.Repeat("x", 300<<10))
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("repeated", failsUntil[W](seen, "repeated", 1, kopf.Temporary(long, 0))).
			OnCreate("waiting", fails[W](seen, "waiting", kopf.Temporary(long, never))).
			OnDelete("failed", fails[W](seen, "failed", kopf.Permanent(long)))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "repeated")).Should(HaveField("Success", true))
		Expect(recordOf(ctx, obj, "waiting")()).To(HaveField("Message", And(
			HavePrefix("it began with "), WithTransform(func(s string) int { return len(s) }, BeNumerically("<", 2<<10)))))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"repeated:create#0", "waiting:create#0", "repeated:create#1", "failed:delete#0"}))
	}, SpecTimeout(minute))

	It("as a baseline is replaced by a digest; changes are detected without a diff (B-31)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).
			On("any", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonResume},
				func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("%s old %t diff %d", req.Reason, req.Old != nil, len(req.Diff))
					return nil
				}).
			OnDelete("deleted", ok[W](seen, "deleted"))
		first := start(ns, options(resource))
		obj := widget(ns, "one")
		obj.Spec.Color = strings.Repeat("x", 300<<10)
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Annotations", HaveKey(digestAnnotation)))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		want := []string{"create old false diff 1", "update old false diff 0"}
		Eventually(seen.all).Should(Equal(want))
		Consistently(seen.all, quietTime).Should(Equal(want))

		first.stop()
		start(ns, options(resource))
		want = append(want, "resume old true diff 0")
		Eventually(seen.all).Should(HaveLen(len(want)))
		edit(ctx, obj, func(w W) { w.Spec.Color = "blue" })
		want = append(want, "update old false diff 0")
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations",
			HaveKeyWithValue(baselineKey, MatchJSON(`{"spec":{"color":"blue","size":2}}`))), "the baseline must be stored again when it fits")
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(want, "deleted:delete")))
	}, SpecTimeout(minute))

	It("as a baseline does not turn changes by resume handlers into updates (B-13, B-31)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		obj.Spec.Color = strings.Repeat("x", 300<<10)
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created")))
		start(ns, options(kopf.For(&v1.Widget{}).
			OnResume("resumed", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("resumed:%s#%d", req.Reason, req.Attempt.Number)
				req.Object.Spec.Size = 2
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errOutOfOrder, 100*millisecond)
				}
				return nil
			}).
			OnUpdate("updated", ok[W](seen, "updated"))))
		Eventually(seen.all).Should(HaveLen(2))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"resumed:resume#0", "resumed:resume#1"}))
	}, SpecTimeout(minute))

	It("in Go types is converted to JSON types", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).
			OnCreate("created", func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
				seen.notef("created#%d", req.Attempt.Number)
				req.Object.Object["spec"] = map[string]any{"size": 5, "tags": []string{"a"}} // neither int64 nor []any
				return nil
			}).
			OnUpdate("updated", ok[*unstructured.Unstructured](seen, "updated"))))
		obj := untyped(gadgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(valueAt(ctx, obj, "spec")()).To(Equal(map[string]any{"size": int64(5), "tags": []any{"a"}}))
		Consistently(seen.all, quietTime).Should(Equal([]string{"created#0"}))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("A handler", func() {
	type W = *v1.Widget

	DescribeTable("that removes all annotations does not remove those of the engine (decision 0005)",
		func(ctx context.Context, left map[string]string) {
			ns, seen := newNamespace(ctx), &calls{}
			resource := kopf.For(&v1.Widget{}).
				On("before", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonResume}, ok[W](seen, "before")).
				On("clear", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonResume},
					func(_ context.Context, req *kopf.Request[W]) error {
						seen.notef("clear:%s#%d", req.Reason, req.Attempt.Number)
						req.Object.SetAnnotations(left)
						if req.Attempt.Number < 2 {
							return kopf.Temporary(errOutOfOrder, 50*millisecond)
						}
						return nil
					})
			var want []string
			awaitCalls := func(reason kopf.Reason) {
				GinkgoHelper()
				want = append(want, fmt.Sprint("before:", reason))
				for n := range 3 {
					want = append(want, fmt.Sprintf("clear:%s#%d", reason, n))
				}
				Eventually(seen.all).Should(Equal(want))
				handled(ctx, widget(ns, "one"))
				Consistently(seen.all, quietTime).Should(Equal(want))
			}
			first := start(ns, options(resource))
			obj := widget(ns, "one")
			obj.Annotations = map[string]string{"example.com/old": "old"}
			create(ctx, obj)
			awaitCalls(kopf.ReasonCreate)
			edit(ctx, obj, func(w W) { w.Spec.Size, w.Annotations["example.com/old"] = 2, "again" })
			awaitCalls(kopf.ReasonUpdate)
			first.stop()
			start(ns, options(resource))
			awaitCalls(kopf.ReasonResume)

			now, err := fresh(ctx, obj)()
			Expect(err).NotTo(HaveOccurred())
			maps.DeleteFunc(now.Annotations, func(key, _ string) bool {
				return key == baselineKey || strings.HasPrefix(key, progress.DefaultPrefix+"/state-of-")
			})
			Expect(now.Annotations).To(HaveLen(len(left)))
			for key, value := range left {
				Expect(now.Annotations).To(HaveKeyWithValue(key, value))
			}
		},
		Entry("and writes other annotations", SpecTimeout(minute), map[string]string{"example.com/mine": "yes"}),
		Entry("and writes an empty map", SpecTimeout(minute), map[string]string{}),
		Entry("and writes nil", SpecTimeout(minute), nil),
	)

	It("that removes all finalizers does not remove the finalizer of the engine (FIN-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		clearFinalizers := func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s", req.Reason)
			req.Object.SetFinalizers(nil)
			return nil
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", clearFinalizers).OnDelete("deleted", clearFinalizers)))
		obj := widget(ns, "one")
		obj.Finalizers = []string{foreignFinalizer}
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Finalizers", ConsistOf(kopf.DefaultFinalizer)))
		edit(ctx, obj, func(w W) { w.Finalizers = append(w.Finalizers, foreignFinalizer) })
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all, quietTime).Should(Equal([]string{"create", "delete"}))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("A lifecycle", func() {
	type W = *v1.Widget

	It("that selects no handler is called again after a delay", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var selections atomic.Int64
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created")),
			kopf.WithLifecycle(func(due []string, _ func(string) progress.Record) []string {
				if selections.Add(1) < 4 {
					return nil
				}
				return due
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Consistently(selections.Load).Should(BeNumerically("<", 4), "the lifecycle must not be called in a hot loop")
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created:create"}))
	}, SpecTimeout(minute))

	It("cannot call a handler twice, or a handler that is not due", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("first", ok[W](seen, "first")).
			OnCreate("second", failsUntil[W](seen, "second", 1, kopf.Temporary(nil, 100*millisecond))).
			OnUpdate("updated", ok[W](seen, "updated")),
			kopf.WithLifecycle(func(due []string, _ func(string) progress.Record) []string {
				return append(append(due, due...), "first", "updated", "unknown")
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"first:create", "second:create#0", "second:create#1"}))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})

var _ = Describe("Regressions", func() {
	type W = *v1.Widget

	It("finished resume handlers are not called again for an update (CAUSE-25)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created")))
		start(ns, options(kopf.For(&v1.Widget{}).
			OnResume("first", ok[W](seen, "first")).
			OnResume("second", failsUntil[W](seen, "second", 1, kopf.Temporary(errOutOfOrder, 5*time.Second))). // longer than the time until the edit is handled
			OnUpdate("updated", ok[W](seen, "updated"))))
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", 1))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		want := []string{"first:resume", "second:resume#0", "updated:update", "second:update#1"}
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))

	It("attempts that are ended by the timeout of the controller are counted (B-22)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{},
			kopf.WithControllerOptions(controller.Options{ReconciliationTimeout: 300 * millisecond})).
			OnCreate("endless", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("endless#%d", req.Attempt.Number)
				<-ctx.Done()
				return ctx.Err()
			}, kopf.Retries(2), kopf.Backoff(50*millisecond)).
			OnCreate("other", ok[W](seen, "other"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.count("other:create")).To(Equal(1))
		Consistently(seen.all, quietTime).Should(ConsistOf("endless#0", "endless#1", "other:create"))
	}, SpecTimeout(minute))

	It("a lost response causes neither a second call nor a consistency wait (B-05)", func(ctx context.Context) {
		const wait = 30 * time.Second // longer than the timeout of handled
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.WithConsistencyTimeout(wait), kopf.For(&v1.Widget{}).
			OnCreate("first", ok[W](seen, "first")).
			OnCreate("second", failsUntil[W](seen, "second", 1, kopf.Temporary(nil, 10*millisecond)))),
			withFaults(func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if n == 1 && err == nil {
					_ = response.Body.Close()
					return nil, io.ErrUnexpectedEOF
				}
				return response, err
			}))
		obj := widget(ns, "one")
		create(ctx, obj)
		began := time.Now()
		handled(ctx, obj)
		Expect(time.Since(began)).To(BeNumerically("<", wait))
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create#0", "second:create#1"}))
	}, SpecTimeout(minute))

	It("a checkpoint after each handler causes one write per handler", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var writes atomic.Int64
		start(ns, options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
			OnCreate("first", ok[W](seen, "first")).
			OnCreate("second", ok[W](seen, "second"))),
			withFaults(func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error) {
				writes.Store(n)
				return next.RoundTrip(r)
			}))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Consistently(writes.Load, quietTime).Should(BeEquivalentTo(2), "want one write for the record, and one for its removal and the baseline")
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create"}))
	}, SpecTimeout(minute))

	DescribeTable("two operators of one manager do not start if they would revert each other's changes (B-34)",
		func(ctx context.Context, difference []kopf.Option, words, others string) {
			ns, seen := newNamespace(ctx), &calls{}
			mgr := newManager(ns, &logRecorder{})
			resource := func() *kopf.Resource[W] {
				return kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created")).OnDelete("deleted", ok[W](seen, "deleted"))
			}
			Expect(kopf.SetupWithManager(mgr, resource())).To(Succeed())
			Expect(kopf.SetupWithManager(mgr, append(difference, resource())...)).To(Succeed())
			Expect(failedStart(ctx, mgr)).To(MatchError(And(
				ContainSubstring("the operator cannot start"),
				ContainSubstring("Widget: another operator of this manager has the same "+words),
				Not(ContainSubstring("same "+others)))))
		},
		Entry("by the same finalizer", SpecTimeout(minute), options(
			kopf.WithProgress(progress.Annotations("b.example.com")), kopf.WithBaseline(progress.AnnotationBaseline("b.example.com"))),
			"finalizer", "baseline"),
		Entry("by the same baseline", SpecTimeout(minute), options(kopf.WithFinalizer("b.example.com/finalizer")),
			"baseline", "finalizer"),
	)
})
