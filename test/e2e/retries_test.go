package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A failing handler", func() {
	type W = *v1.Widget
	const never = time.Hour

	It("fails permanently at its limits, without waiting for the next attempt (ERR-03, ERR-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("thrice", fails[W](seen, "thrice", errOutOfOrder), kopf.Retries(3), kopf.Backoff(20*time.Millisecond)).
			OnCreate("never", fails[W](seen, "never", errOutOfOrder), kopf.Retries(0)).
			OnCreate("once", fails[W](seen, "once", errOutOfOrder), kopf.Retries(1), kopf.Backoff(never)).
			OnCreate("timed", fails[W](seen, "timed", errOutOfOrder), kopf.Timeout(never/2), kopf.Backoff(never)).
			OnCreate("asked", fails[W](seen, "asked", kopf.Temporary(errOutOfOrder, never)), kopf.Timeout(never/2))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		want := ConsistOf("thrice:create#0", "thrice:create#1", "thrice:create#2",
			"once:create#0", "timed:create#0", "asked:create#0")
		Consistently(seen.all, quietTime).Should(want)
		Expect(op.log.find(`"handler"="thrice"`, "failed permanently", "gave up after 3 attempts", errOutOfOrder.Error())).To(HaveLen(1))
		Expect(op.log.find(`"handler"="never"`, "failed permanently", "gave up after 0 attempts")).To(HaveLen(1))
		Expect(op.log.find(`"handler"="timed"`, "failed permanently", "exceed the timeout of 30m0s", errOutOfOrder.Error())).To(HaveLen(1))
		Eventually(op.log.find).WithArguments("Handled", `"succeeded"=0`, `"failed"=5`).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("fails permanently at its timeout (ERR-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("quick", fails[W](seen, "quick", errOutOfOrder), kopf.Timeout(500*time.Millisecond), kopf.Backoff(200*time.Millisecond)).
				OnCreate("late", fails[W](seen, "late", kopf.Temporary(errOutOfOrder, never)), kopf.Timeout(2*never)))
		}
		first := start(ns, declare())
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "quick")).Should(HaveField("Failure", true))
		Expect(seen.count("quick:create#3")).To(BeZero(), "attempts at 0, 200 and 400 ms are within the limit, 600 ms is not")
		Expect(first.log.find(`"handler"="quick"`, "exceed the timeout of 500ms")).To(HaveLen(1))
		first.stop()

		before := seen.all()
		editRecord(ctx, obj, "late", func(r *progress.Record) {
			r.Started, r.Delayed = time.Now().Add(-3*never), time.Now().Add(-never)
		})
		second := start(ns, declare())
		handled(ctx, obj)
		Expect(seen.all()).To(Equal(before), "the handlers must not be called again")
		Expect(second.log.find(`"handler"="late"`, "exceed the timeout of 2h0m0s")).To(HaveLen(1))
	}, SpecTimeout(minute))

	It("is retried after its own backoff (ERR-12, PROG-17)", func(ctx context.Context) {
		const slack = 3 * time.Second
		ns := newNamespace(ctx)
		lines := map[string]*timeline{}
		resource := kopf.For(&v1.Widget{})
		failing := func(id string, err error, opts ...kopf.HandlerOption) {
			lines[id] = &timeline{}
			resource.OnCreate(id, timed(lines[id], failsUntil[W](&calls{}, id, 3, err)), opts...)
		}
		failing("backoff", errOutOfOrder, kopf.Backoff(300*time.Millisecond))
		failing("none", errOutOfOrder, kopf.Backoff(0))
		failing("func", errOutOfOrder, kopf.BackoffFunc(func(a progress.Attempt, err error) time.Duration {
			if !errors.Is(err, errOutOfOrder) {
				return never
			}
			return time.Duration(a.Number) * 200 * time.Millisecond
		}))
		failing("exponential", errOutOfOrder, kopf.BackoffFunc(progress.Exponential(100*time.Millisecond, 300*time.Millisecond)))
		failing("temporary", kopf.Temporary(errOutOfOrder, 150*time.Millisecond), kopf.Backoff(never))
		failing("wrapped", fmt.Errorf("wrapped: %w", kopf.Temporary(errOutOfOrder, 150*time.Millisecond)), kopf.Backoff(never))
		failing("at-once", kopf.Temporary(errOutOfOrder, 0), kopf.Backoff(never))
		start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		for id, pauses := range map[string][]int{
			"backoff": {300, 300, 300}, "none": {0, 0, 0}, "func": {0, 200, 400}, "exponential": {100, 200, 300},
			"temporary": {150, 150, 150}, "wrapped": {150, 150, 150}, "at-once": {0, 0, 0},
		} {
			var want []any
			for _, ms := range pauses {
				pause := time.Duration(ms) * time.Millisecond
				want = append(want, And(BeNumerically(">=", pause-timeTolerance), BeNumerically("<", pause+slack)))
			}
			Expect(lines[id].gaps()).To(HaveExactElements(want...), id)
		}
	}, SpecTimeout(minute))

	It("that fails permanently does not block other handlers, the baseline, or the deletion (PROG-27, FIN-07)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("permanent", fails[W](seen, "permanent", kopf.Permanent(errOutOfOrder))).
			OnCreate("wrapped", fails[W](seen, "wrapped", fmt.Errorf("wrapped: %w", kopf.Permanent(errOutOfOrder)))).
			OnCreate("terminal", fails[W](seen, "terminal", reconcile.TerminalError(errOutOfOrder))).
			OnCreate("strict", fails[W](seen, "strict", errOutOfOrder), kopf.ErrorMode(progress.ErrorsPermanent)).
			OnCreate("ignored", fails[W](seen, "ignored", errOutOfOrder), kopf.ErrorMode(progress.ErrorsIgnored)).
			OnCreate("patient", failsUntil[W](seen, "patient", 1, kopf.Temporary(errOutOfOrder, 0)), kopf.ErrorMode(progress.ErrorsPermanent)).
			OnCreate("good", ok[W](seen, "good")).
			OnDelete("delete-bad", fails[W](seen, "delete-bad", kopf.Permanent(errOutOfOrder))).
			OnDelete("delete-good", ok[W](seen, "delete-good"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		want := []string{
			"permanent:create#0", "wrapped:create#0", "terminal:create#0", "strict:create#0", "ignored:create#0",
			"patient:create#0", "good:create", "patient:create#1",
		}
		Consistently(seen.all, quietTime).Should(Equal(want))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(want, "delete-bad:delete#0", "delete-good:delete")))
	}, SpecTimeout(minute))

	It("that panics is retried according to its policy, is logged once with its stack, and affects no other handler (B-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s#%d", req.Object.Name, req.Attempt.Number)
				if req.Object.Name == "bad" && req.Attempt.Number == 0 {
					panicky(nil)
				}
				return nil
			}, kopf.Backoff(200*time.Millisecond)).
			OnCreate("other", ok[W](seen, "other"))))
		bad, good := widget(ns, "bad"), widget(ns, "good")
		create(ctx, bad)
		Eventually(seen.all).Should(ContainElements("bad#0", "other:create"))
		create(ctx, good)
		handled(ctx, good)
		Expect(seen.count("good#0")).To(Equal(1))
		handled(ctx, bad)
		Expect(seen.all()).To(ConsistOf("bad#0", "bad#1", "other:create", "good#0", "other:create"))
		logged := op.log.find("panic")
		Expect(logged).To(HaveLen(1))
		Expect(logged[0]).To(And(ContainSubstring("nil map"), ContainSubstring(`"stack"=`), ContainSubstring("e2e.panicky"),
			ContainSubstring(`"handler"="created"`), ContainSubstring(`"name"="bad"`)))
		Expect(op.log.errors()).To(Equal(logged))
	}, SpecTimeout(minute))

	It("that takes too long is cancelled through its context, and retried according to its policy (B-22, SE-41)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("created#%d", req.Attempt.Number)
				if req.Attempt.Number > 0 {
					return nil
				}
				<-ctx.Done()
				seen.notef("cancelled: %v", ctx.Err())
				return ctx.Err()
			}, kopf.AttemptTimeout(200*time.Millisecond), kopf.Backoff(50*time.Millisecond)).
			OnCreate("other", func(ctx context.Context, _ *kopf.Request[W]) error {
				_, limited := ctx.Deadline()
				seen.notef("limited: %v", limited)
				return ctx.Err()
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{
			"created#0", "cancelled: context deadline exceeded", "limited: false", "created#1",
		}))
	}, SpecTimeout(minute))

	It("is not called again after the deletion of its object has started (CAUSE-18)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", fails[W](seen, "created", kopf.Temporary(errOutOfOrder, 200*time.Millisecond))).
			OnDelete("deleted", failsUntil[W](seen, "deleted", 2, kopf.Temporary(errOutOfOrder, 300*time.Millisecond)))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "created")).Should(HaveField("Retries", BeNumerically(">=", 1)))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		all := seen.all()
		Expect(all[len(all)-3:]).To(Equal([]string{"deleted:delete#0", "deleted:delete#1", "deleted:delete#2"}))
		Expect(all[:len(all)-3]).To(HaveEach(HavePrefix("created:")))
		Eventually(op.log.find).WithArguments("superseded", `"cause"="create"`, `"by"="delete"`).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("does not reuse records of its id from other causes (SE-03, PROG-24)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			On("both", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, ok[W](seen, "both")).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				if req.Object.Name == "fine" {
					return nil
				}
				return kopf.Temporary(errOutOfOrder, never)
			})))
		fine, halfway := widget(ns, "fine"), widget(ns, "halfway")
		create(ctx, fine)
		handled(ctx, fine)
		remove(ctx, fine)
		Eventually(gone(ctx, fine)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"both:create", "both:delete"}))

		create(ctx, halfway)
		Eventually(recordOf(ctx, halfway, "both")).Should(HaveField("Success", true))
		remove(ctx, halfway)
		Eventually(gone(ctx, halfway)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"both:create", "both:delete", "both:create", "both:delete"}))
	}, SpecTimeout(minute))

	It("is logged as an error if its error was not expected (B-27)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		failing := func(id string, err error) kopf.Handler[W] {
			return failsUntil[W](&calls{}, id, 1, err)
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("temporary", failing("temporary", kopf.Temporary(errOutOfOrder, 0))).
			OnCreate("permanent", failing("permanent", kopf.Permanent(errOutOfOrder))).
			OnCreate("terminal", failing("terminal", reconcile.TerminalError(errOutOfOrder))).
			OnCreate("unknown", failing("unknown", errOutOfOrder), kopf.Backoff(0)).
			OnCreate("limited", failing("limited", kopf.Temporary(errOutOfOrder, 0)), kopf.Retries(1))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		for _, id := range []string{"temporary", "permanent", "terminal", "unknown", "limited"} {
			Expect(op.log.find("Handler failed", `"handler"="`+id+`"`, errOutOfOrder.Error())).To(HaveLen(1), id)
		}
		Expect(op.log.errors()).To(HaveExactElements(ContainSubstring(`"handler"="unknown"`)))
	}, SpecTimeout(minute))

	It("does not block a worker while it waits (DLY-12)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s#%d", req.Object.Name, req.Attempt.Number)
				if req.Object.Name == "good" {
					return nil
				}
				return errOutOfOrder
			}, kopf.Backoff(never))))
		bad, good := widget(ns, "bad"), widget(ns, "good")
		create(ctx, bad)
		Eventually(recordOf(ctx, bad, "created")).Should(HaveField("Retries", 1))
		create(ctx, good)
		handled(ctx, good)
		Expect(seen.all()).To(Equal([]string{"bad#0", "good#0"}))
	}, SpecTimeout(minute))

	It("keeps its backoff even if other clients change the object frequently (B-11)", func(ctx context.Context) {
		const backoff = time.Second
		ns, line := newNamespace(ctx), &timeline{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", timed(line, failsUntil[W](&calls{}, "created", 2, errOutOfOrder)), kopf.Backoff(backoff))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(line.times).ShouldNot(BeEmpty())
		for i := range 50 {
			// Essential and other changes alternate.
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/edit":"%d"}}}`, i)
			if i%2 == 0 {
				patch = fmt.Sprintf(`{"status":{"phase":"phase-%d"}}`, i)
				Expect(k8s.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
				continue
			}
			Expect(k8s.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}
		handled(ctx, obj)
		Expect(line.gaps()).To(HaveExactElements(atLeast(backoff), atLeast(backoff)))
	}, SpecTimeout(minute))
})

// panicky writes to a nil map.
func panicky(m map[string]int) { m["one"]++ }

// atLeast matches the time between two attempts.
func atLeast(pause time.Duration) OmegaMatcher { return BeNumerically(">=", pause-timeTolerance) }

var _ = Describe("A change that is made, reverted and made again", func() {
	type W = *v1.Widget

	It("does not shorten the backoff of a failing handler (B-11), and does not reuse its success (B-02, PROG-26)", func(ctx context.Context) {
		const backoff = 6 * time.Second // longer than the time for the edits
		ns, seen := newNamespace(ctx), &calls{}
		line := &timeline{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("quick", ok[W](seen, "quick")).
			OnUpdate("failing", timed(line, failsUntil[W](seen, "failing", 1, kopf.Temporary(errOutOfOrder, backoff))))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		for i := range 7 {
			edit(ctx, obj, func(w W) { w.Spec.Size = 2 - i%2 })
			Eventually(func() int { return seen.count("quick:update") }).Should(BeNumerically(">", i), "handlers that were called must be called again")
		}
		handled(ctx, obj)
		Expect(line.gaps()).To(HaveExactElements(atLeast(backoff)))
	}, SpecTimeout(minute))
})
