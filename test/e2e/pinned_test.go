package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var createOrUpdate = []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}

var _ = Describe("A cycle", func() {
	type W = *v1.Widget
	const pause = 100 * millisecond

	// recordSize returns a handler that records the size in the diff and in the object.
	recordSize := func(seen *calls, id string, err func() error) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			what := fmt.Sprint(req.Diff)
			if req.Reason == kopf.ReasonCreate {
				what = fmt.Sprint(req.Diff.Reduce("spec", "size"))
			}
			outcome := "ok"
			defer func() { seen.notef("%s:%s %s, now %d: %s", id, req.Reason, what, req.Object.Spec.Size, outcome) }()
			if err == nil {
				return nil
			}
			if err := err(); err != nil {
				outcome = "failed"
				return err
			}
			return nil
		}
	}
	// failUnless returns a function that fails until open is true.
	failUnless := func(open *atomic.Bool) func() error {
		return func() error {
			if open.Load() {
				return nil
			}
			return kopf.Temporary(errOutOfOrder, pause)
		}
	}
	size := func(n int) func(W) { return func(w W) { w.Spec.Size = n } }
	is := func(id string, from, to, now int) string {
		return fmt.Sprintf("%s:update %s, now %d: ok", id, changed(from, to, "spec", "size"), now)
	}
	// successes returns the calls without failed attempts.
	successes := func(seen *calls) func() []string {
		return func() (out []string) {
			for _, entry := range seen.all() {
				if !strings.HasSuffix(entry, ": failed") {
					out = append(out, entry)
				}
			}
			return out
		}
	}
	expectBaseline := func(ctx context.Context, obj W, n int) {
		GinkgoHelper()
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations",
			And(HaveLen(2), HaveKeyWithValue(baselineKey, ContainSubstring(fmt.Sprintf(`"size":%d`, n))))))
	}

	DescribeTable("passes an edit between two handlers to both, as a second update (B-01, CAUSE-15, CAUSE-16, ESS-17, SE-01)",
		func(ctx context.Context, restart, earlier bool) {
			ns, seen := newNamespace(ctx), &calls{}
			var open atomic.Bool
			declare := func() []kopf.Option {
				return options(kopf.For(&v1.Widget{}).
					OnUpdate("first", recordSize(seen, "first", nil)).
					OnUpdate("second", recordSize(seen, "second", failUnless(&open))))
			}
			obj := widget(ns, "one")
			handledBefore(ctx, obj, declare()...)
			op := start(ns, declare())

			edit(ctx, obj, size(2))
			Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", BeNumerically(">", 0)))
			Expect(fresh(ctx, obj)()).To(HaveField("Annotations", HaveKey(pinKey)))
			if restart {
				op.stop()
			}
			if earlier {
				edit(ctx, obj, func(w W) {
					w.Annotations["runtime."+pinKey] = w.Annotations[pinKey]
					delete(w.Annotations, pinKey)
				})
			}
			edit(ctx, obj, size(3))
			edit(ctx, obj, size(4))
			if restart {
				start(ns, declare())
			}
			failed := "second:update " + changed(1, 2, "spec", "size") + ", now 4: failed"
			Eventually(seen.all).Should(ContainElement(failed), "the diff must belong to the cycle; the object must be the latest")
			open.Store(true)
			Eventually(successes(seen)).Should(Equal([]string{is("first", 1, 2, 2), is("second", 1, 2, 4), is("first", 2, 4, 4), is("second", 2, 4, 4)}))
			expectBaseline(ctx, obj, 4)
			Consistently(successes(seen), quietTime).Should(HaveLen(4))
		},
		Entry("in one process", SpecTimeout(minute), false, false),
		Entry("across a restart", SpecTimeout(minute), true, false),
		Entry("across a restart, with the pin of an earlier version", SpecTimeout(minute), true, true),
	)

	DescribeTable("of a creation handles a concurrent edit as a separate update (B-01, CAUSE-14)",
		func(ctx context.Context, deletes bool) {
			ns, seen := newNamespace(ctx), &calls{}
			var open atomic.Bool
			resource := kopf.For(&v1.Widget{}).
				On("first", createOrUpdate, recordSize(seen, "first", nil)).
				On("second", createOrUpdate, recordSize(seen, "second", failUnless(&open)))
			if deletes {
				resource.OnDelete("deleted", ok[W](seen, "deleted"))
			}
			start(ns, options(resource))
			obj := widget(ns, "one")
			create(ctx, obj)
			Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", BeNumerically(">", 0)))
			edit(ctx, obj, size(2))
			Eventually(seen.all).Should(ContainElement("second:create add: 1, now 2: failed"))
			Expect(fresh(ctx, obj)()).To(HaveField("Annotations", Not(HaveKey(baselineKey))))
			open.Store(true)
			want := []string{"first:create add: 1, now 1: ok", "second:create add: 1, now 2: ok", is("first", 1, 2, 2), is("second", 1, 2, 2)}
			Eventually(successes(seen)).Should(Equal(want))
			expectBaseline(ctx, obj, 2)
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
			if deletes {
				want = append(want, "deleted:delete")
			}
			Expect(successes(seen)()).To(Equal(want))
		},
		Entry("without a finalizer", SpecTimeout(minute), false),
		Entry("with a finalizer", SpecTimeout(minute), true),
	)

	It("whose change is reverted calls the handlers that were called before (B-02, CAUSE-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var open atomic.Bool
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("made", ok[W](&calls{}, "made")))
		start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("first", recordSize(seen, "first", nil)).
			OnUpdate("second", recordSize(seen, "second", failUnless(&open)))))
		edit(ctx, obj, size(2))
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", BeNumerically(">", 0)))
		edit(ctx, obj, size(1))
		open.Store(true)
		Eventually(successes(seen)).Should(ContainElement(is("first", 2, 1, 1)), "handlers that were called must be called for the reverted change")
		expectBaseline(ctx, obj, 1)
		n := len(successes(seen)())
		Consistently(successes(seen), quietTime).Should(HaveLen(n))

		By("updating again: every handler is called again")
		edit(ctx, obj, size(2))
		Eventually(successes(seen)).Should(HaveLen(n + 2))
		Expect(successes(seen)()[n:]).To(Equal([]string{is("first", 1, 2, 2), is("second", 1, 2, 2)}))
		expectBaseline(ctx, obj, 2)
	}, SpecTimeout(minute))

	It("whose change is reverted calls the handlers that were called before, even if they have failed (B-01)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var open atomic.Bool
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("made", ok[W](&calls{}, "made")))
		start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("half", recordSize(seen, "half", failUnless(&open))))) // the handler may have had effects before its failure
		edit(ctx, obj, size(2))
		Eventually(seen.all).Should(ContainElement("half:update change spec.size: 1 -> 2, now 2: failed"))
		edit(ctx, obj, size(1))
		Eventually(seen.all).Should(ContainElement("half:update change spec.size: 2 -> 1, now 1: failed"))
		open.Store(true)
		Eventually(successes(seen)).Should(Equal([]string{is("half", 2, 1, 1)}))
		expectBaseline(ctx, obj, 1)
	}, SpecTimeout(minute))

	It("ends when the object is deleted, and does not block the deletion (CAUSE-18)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var open atomic.Bool
		obj := widget(ns, "one")
		resource := kopf.For(&v1.Widget{}).
			OnUpdate("first", recordSize(seen, "first", nil)).
			OnUpdate("second", recordSize(seen, "second", failUnless(&open))).
			OnDelete("deleted", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("deleted, old %d, now %d, %s", req.Old.Spec.Size, req.Object.Spec.Size, req.Diff)
				return nil
			})
		handledBefore(ctx, obj, resource)
		start(ns, options(resource))
		edit(ctx, obj, size(2))
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", BeNumerically(">", 0)))
		edit(ctx, obj, size(3))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(successes(seen)()).To(Equal([]string{is("first", 1, 2, 2), "deleted, old 1, now 3, " + changed(1, 3, "spec", "size")}))
	}, SpecTimeout(minute))

	It("passes the pinned change to handlers for fields, and not later edits (B-01, FLT-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var open atomic.Bool
		obj := widget(ns, "one")
		gate := func() error {
			if open.Load() {
				return nil
			}
			return kopf.Temporary(errOutOfOrder, pause)
		}
		resource := kopf.For(&v1.Widget{}).
			OnField("field", "spec.size", func(_ context.Context, req *kopf.Request[W]) error {
				old, now := req.Field()
				if err := gate(); err != nil {
					return err
				}
				seen.notef("field %v→%v", old, now)
				return nil
			}).
			OnUpdate("to-two", func(_ context.Context, req *kopf.Request[W]) error {
				if err := gate(); err != nil {
					return err
				}
				seen.notef("to-two")
				return nil
			}, kopf.Field("spec.size", filter.To(2)))
		kopf.OnChange(resource, "change", func(w W) int { return w.Spec.Size * 10 },
			func(_ context.Context, _ *kopf.Request[W], old, now int) error {
				if err := gate(); err != nil {
					return err
				}
				seen.notef("change %d→%d", old, now)
				return nil
			})
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("made", ok[W](&calls{}, "made")))
		start(ns, options(resource))
		edit(ctx, obj, size(2))
		Eventually(recordOf(ctx, obj, "change")).Should(HaveField("Retries", BeNumerically(">", 0)))
		edit(ctx, obj, size(3))
		open.Store(true)
		Eventually(seen.all).Should(ConsistOf("field 1→2", "to-two", "change 10→20", "field 2→3", "change 20→30"))
		expectBaseline(ctx, obj, 3)
	}, SpecTimeout(minute))

	It("keeps the changes of its handlers, and does not handle them as an edit (B-01, B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var open atomic.Bool
		obj := widget(ns, "one")
		start(ns, options(kopf.For(&v1.Widget{}).
			On("paint", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("paint %s %s", req.Reason, req.Diff.Reduce("spec", "size"))
				req.Object.Spec.Color = fmt.Sprintf("color-%d", req.Object.Spec.Size)
				return nil
			}).
			On("second", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				if !open.Load() {
					return kopf.Temporary(errOutOfOrder, pause)
				}
				seen.notef("second %s %s", req.Reason, req.Diff.Reduce("spec", "size"))
				return nil
			})))
		create(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Spec.Color", "color-1"))
		edit(ctx, obj, size(2))
		open.Store(true)
		want := []string{"paint create add: 1", "second create add: 1", "paint update change: 1 -> 2", "second update change: 1 -> 2"}
		Eventually(seen.all).Should(Equal(want))
		expectBaseline(ctx, obj, 2)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Color", "color-2"))
		Consistently(seen.all, quietTime).Should(Equal(want))
	}, SpecTimeout(minute))

	It("of one reconcile writes no pin and sends no additional request (B-01)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var mu sync.Mutex
		var bodies []string
		start(ns, options(kopf.For(&v1.Widget{}).
			On("first", createOrUpdate, ok[W](seen, "first")).
			On("second", createOrUpdate, ok[W](seen, "second")).
			OnDelete("deleted", ok[W](seen, "deleted"))), withFaults(
			func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
				body, err := r.GetBody()
				if err != nil {
					return nil, err
				}
				text, err := io.ReadAll(body)
				mu.Lock()
				bodies = append(bodies, string(text))
				mu.Unlock()
				if err != nil {
					return nil, err
				}
				return next.RoundTrip(r)
			}))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, size(2))
		expectBaseline(ctx, obj, 2)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		mu.Lock()
		defer mu.Unlock()
		Expect(bodies).To(HaveLen(4), "finalizer, creation, update, deletion")
		Expect(bodies).NotTo(ContainElement(ContainSubstring("pinned-configuration")))
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create", "first:update", "second:update", "deleted:delete"}))
	}, SpecTimeout(minute))

	It("never loses a change, for any order of edits and failures (B-01)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		const objects, edits = 4, 25
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1))
		var mu sync.Mutex
		roll := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		}
		// last contains the sizes in the diff and in the object of the last call, by object and handler.
		last := map[string][2]int{}
		work := func(id string) kopf.Handler[W] {
			return func(ctx context.Context, req *kopf.Request[W]) error {
				diffSize := 0
				if req.Old != nil {
					diffSize = req.Old.Spec.Size
				}
				for _, item := range req.Diff.Reduce("spec", "size") {
					if n, isNumber := item.New.(int64); isNumber {
						diffSize = int(n)
					}
				}
				mu.Lock()
				last[req.Object.Name+"/"+id] = [2]int{diffSize, req.Object.Spec.Size}
				mu.Unlock()
				switch roll(4) {
				case 0:
					return kopf.Temporary(errOutOfOrder, time.Duration(roll(60))*millisecond)
				case 1:
					select { // the pause allows edits while the handler runs
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Duration(roll(30)) * millisecond):
					}
				}
				return nil
			}
		}
		resource := kopf.For(&v1.Widget{})
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			resource.On(id, createOrUpdate, work(id))
		}
		op := start(ns, options(resource, kopf.WithCheckpoint(0)))
		all := make([]W, objects)
		for i := range all {
			all[i] = widget(ns, fmt.Sprintf("w%d", i))
			create(ctx, all[i])
		}
		for range edits {
			for _, obj := range all {
				edit(ctx, obj, size(roll(3)+1)) // with few sizes, many edits are reverted or change nothing
			}
		}
		for _, obj := range all {
			expectBaseline(ctx, obj, obj.Spec.Size)
		}
		// A baseline from before the last edits may have the same size, so the engine may still handle these edits.
		want := map[string][2]int{}
		for _, obj := range all {
			for _, id := range ids {
				want[obj.Name+"/"+id] = [2]int{obj.Spec.Size, obj.Spec.Size}
			}
		}
		Eventually(func() map[string][2]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(last)
		}).Should(Equal(want))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(2*minute))
})
