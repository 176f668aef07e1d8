package e2e

import (
	"context"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// errPermanent is a permanent error.
var errPermanent = kopf.Permanent(errOutOfOrder)

var _ = Describe("After", func() {
	type W = *v1.Widget
	const pause = 150 * millisecond

	DescribeTable("orders handlers independently of their registration (HND-10, B-20, LIFE-02, LIFE-06)",
		func(ctx context.Context, lifecycle progress.Lifecycle, patches int) {
			ns, seen := newNamespace(ctx), &calls{}
			var writes atomic.Int64
			start(ns, options(kopf.WithLifecycle(lifecycle), kopf.For(&v1.Widget{}).
				OnCreate("d", ok[W](seen, "d"), kopf.After("b", "c")).
				OnCreate("c", ok[W](seen, "c"), kopf.After("a")).
				OnCreate("b", ok[W](seen, "b"), kopf.After("a")).
				OnCreate("a", ok[W](seen, "a"))), counting(&writes))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(Equal([]string{"a:create", "c:create", "b:create", "d:create"}))
			Expect(writes.Load()).To(Equal(int64(patches)))
		},
		Entry("all handlers in each reconcile", SpecTimeout(minute), progress.Lifecycle(progress.AllAtOnce), 1),
		Entry("one handler in each reconcile", SpecTimeout(minute), progress.Lifecycle(progress.OneByOne), 4),
		Entry("asap", SpecTimeout(minute), progress.Lifecycle(progress.Asap), 4),
	)

	DescribeTable("waits until a failing handler succeeds; handlers without the option do not wait (B-20)",
		func(ctx context.Context, lifecycle progress.Lifecycle) {
			ns, seen := newNamespace(ctx), &calls{}
			start(ns, options(kopf.WithLifecycle(lifecycle), kopf.For(&v1.Widget{}).
				OnCreate("last", ok[W](seen, "last"), kopf.After("middle")).
				OnCreate("middle", ok[W](seen, "middle"), kopf.After("first")).
				OnCreate("first", failsUntil[W](seen, "first", 2, kopf.Temporary(errOutOfOrder, pause))).
				OnCreate("free", ok[W](seen, "free"))))
			obj := widget(ns, "one")
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(Equal([]string{"first:create#0", "free:create", "first:create#1", "first:create#2", "middle:create", "last:create"}))
		},
		Entry("all handlers in each reconcile", SpecTimeout(minute), progress.Lifecycle(progress.AllAtOnce)),
		Entry("one handler in each reconcile", SpecTimeout(minute), progress.Lifecycle(progress.OneByOne)),
		Entry("asap", SpecTimeout(minute), progress.Lifecycle(progress.Asap)),
	)

	DescribeTable("fails all later handlers of a chain permanently if one handler fails, with a record and a log line for each",
		func(ctx context.Context, lifecycle progress.Lifecycle) {
			ns, seen := newNamespace(ctx), &calls{}
			var open atomic.Bool
			op := start(ns, options(kopf.WithLifecycle(lifecycle), kopf.For(&v1.Widget{}).
				OnCreate("last", ok[W](seen, "last"), kopf.After("middle")).
				OnCreate("middle", ok[W](seen, "middle"), kopf.After("first")).
				OnCreate("first", fails[W](seen, "first", errPermanent)).
				OnCreate("free", func(context.Context, *kopf.Request[W]) error {
					if open.Load() {
						return nil
					}
					return kopf.Temporary(errOutOfOrder, pause)
				})))
			obj := widget(ns, "one")
			create(ctx, obj)
			for id, first := range map[string]string{"middle": "first", "last": "middle"} {
				Eventually(recordOf(ctx, obj, id)).Should(And(
					HaveField("Failure", true), HaveField("Success", false), HaveField("Stopped", Not(BeZero())),
					HaveField("Message", fmt.Sprintf("it comes after %q, which has failed", first))))
			}
			open.Store(true)
			handled(ctx, obj)
			Expect(seen.all()).To(Equal([]string{"first:create#0"}))
			for _, id := range []string{"middle", "last"} {
				Expect(op.log.find("skipped permanently", fmt.Sprintf(`"handler"=%q`, id), "which has failed")).To(HaveLen(1))
			}
			Eventually(op.log.find).WithArguments(`"msg"="Handled"`, `"succeeded"=1`, `"failed"=3`).Should(HaveLen(1))
		},
		Entry("all handlers in each reconcile", SpecTimeout(minute), progress.Lifecycle(progress.AllAtOnce)),
		Entry("one handler in each reconcile", SpecTimeout(minute), progress.Lifecycle(progress.OneByOne)),
		Entry("asap", SpecTimeout(minute), progress.Lifecycle(progress.Asap)),
	)

	It("does not call a handler whose predecessor has no retries left (ERR-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("first", fails[W](seen, "first", errOutOfOrder), kopf.Retries(2), kopf.Backoff(50*millisecond)).
			OnCreate("second", ok[W](seen, "second"), kopf.After("first"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal([]string{"first:create#0", "first:create#1"}))
	}, SpecTimeout(minute))

	It("treats an ignored error as a success (ERR-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("second", ok[W](seen, "second"), kopf.After("first")).
			OnCreate("first", fails[W](seen, "first", errOutOfOrder), kopf.ErrorMode(progress.ErrorsIgnored))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"first:create#0", "second:create"}))
	}, SpecTimeout(minute))

	It("does not wait for handlers that the cause does not call", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			On("any", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, ok[W](seen, "any"), kopf.After("updated", "labeled")).
			OnUpdate("updated", ok[W](seen, "updated")).
			OnCreate("labeled", fails[W](seen, "labeled", errPermanent), kopf.Label("tier"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"any:create", "updated:update", "any:update"}))
	}, SpecTimeout(minute))

	It("stores the completed predecessors across restarts", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(err error) []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("last", ok[W](seen, "last"), kopf.After("middle")).
				OnCreate("middle", fails[W](seen, "middle", err), kopf.After("first")).
				OnCreate("first", ok[W](seen, "first")))
		}
		obj := widget(ns, "one")
		before := start(ns, declare(kopf.Temporary(errOutOfOrder, pause)))
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "middle")).Should(HaveField("Retries", BeNumerically(">", 0)))
		before.stop()
		n := len(seen.all())
		start(ns, declare(nil))
		handled(ctx, obj)
		Expect(seen.count("first:create")).To(Equal(1))
		Expect(seen.all()[n:]).To(HaveExactElements(HavePrefix("middle:create#"), Equal("last:create")))
	}, SpecTimeout(minute))

	It("stores the failed predecessors across restarts", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var open atomic.Bool
		declare := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("first", fails[W](seen, "first", errPermanent)).
				OnCreate("waiting", func(context.Context, *kopf.Request[W]) error {
					if open.Load() {
						return nil
					}
					return kopf.Temporary(errOutOfOrder, pause)
				}).
				OnCreate("new", ok[W](seen, "new"), kopf.After("first")))
		}
		obj := widget(ns, "one")
		before := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("first", fails[W](seen, "first", errPermanent)).
			OnCreate("waiting", fails[W](&calls{}, "", kopf.Temporary(errOutOfOrder, pause)))))
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "first")).Should(HaveField("Failure", true))
		before.stop()
		start(ns, declare())
		Eventually(recordOf(ctx, obj, "new")).Should(HaveField("Failure", true), "the handler is new in this version of the operator")
		open.Store(true)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"first:create#0"}))
	}, SpecTimeout(minute))

	It("does not block the deletion when delete handlers have failed (FIN-07)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnDelete("second", ok[W](seen, "second"), kopf.After("first")).
			OnDelete("first", fails[W](seen, "first", errPermanent))))
		obj := widget(ns, "one")
		create(ctx, obj)
		held(ctx, obj)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"first:delete#0"}))
	}, SpecTimeout(minute))
})

var _ = Describe("Middleware", func() {
	type W = *v1.Widget

	around := func(seen *calls, name string) kopf.Middleware[W] {
		return func(next kopf.Handler[W]) kopf.Handler[W] {
			return func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("%s(", name)
				err := next(ctx, req)
				seen.notef(")%s", name)
				return err
			}
		}
	}

	It("wraps the handlers that are added after Use; the first middleware is outermost", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).
			OnCreate("bare", ok[W](seen, "bare")).
			Use(around(seen, "a"), around(seen, "b"))
		view := resource.When(func(*kopf.Request[W]) bool { return true }).Use(around(seen, "v"))
		resource.Use(around(seen, "c")).OnCreate("late", ok[W](seen, "late"))
		view.OnCreate("viewed", ok[W](seen, "viewed"))
		start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{
			"bare:create",
			"a(", "b(", "c(", "late:create", ")c", ")b", ")a",
			"a(", "b(", "v(", "viewed:create", ")v", ")b", ")a",
		}))
	}, SpecTimeout(minute))

	It("can replace the call of the handler; its errors count as errors of the handler", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{}).Use(func(next kopf.Handler[W]) kopf.Handler[W] {
			return func(ctx context.Context, req *kopf.Request[W]) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errOutOfOrder, 50*millisecond)
				}
				err := next(ctx, req)
				seen.notef("%v", err)
				req.Object.Status.Phase = "Seen"
				return nil
			}
		})
		resource.OnCreate("failing", fails[W](seen, "failing", errOutOfOrder))
		start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"failing:create#1", errOutOfOrder.Error()}))
		Expect(fresh(ctx, obj)()).To(HaveField("Status.Phase", "Seen"))
	}, SpecTimeout(minute))
})

var _ = Describe("When", func() {
	type W = *v1.Widget

	It("returns views that share one resource, one finalizer and one progress (FLT-09, FLT-01, FIN-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{})
		note := func(id string) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s %s:%s", req.Object.Name, id, req.Reason)
				return nil
			}
		}
		red := resource.When(func(req *kopf.Request[W]) bool { return req.Object.Spec.Color == "red" })
		bigAndRed := red.When(func(req *kopf.Request[W]) bool { return req.Object.Spec.Size > 5 })
		red.OnCreate("red", note("red"))
		bigAndRed.OnCreate("big", note("big")).OnDelete("gone", note("gone"), kopf.Label("held"))
		resource.OnCreate("all", note("all"))
		start(ns, options(resource, red)) // the repeated resource has no effect
		small, big, held, blue := widget(ns, "small"), widget(ns, "big"), widget(ns, "held"), widget(ns, "blue")
		big.Spec.Size, held.Spec.Size, blue.Spec.Size = 6, 7, 8
		held.Labels = map[string]string{"held": ""}
		blue.Spec.Color = "blue"
		for _, obj := range []W{small, big, held, blue} {
			create(ctx, obj)
			handled(ctx, obj)
		}
		want := []string{"small red:create", "small all:create", "big red:create", "big big:create", "big all:create", "held red:create", "held big:create", "held all:create", "blue all:create"}
		Expect(seen.all()).To(Equal(want))
		for _, obj := range []W{small, big, held, blue} {
			now, err := fresh(ctx, obj)()
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Finalizers).To(HaveLen(map[string]int{"held": 1}[obj.Name]), obj.Name)
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
		}
		Consistently(seen.all, quietTime).Should(Equal(append(want, "held gone:delete")))
	}, SpecTimeout(minute))

	It("receives the request of the handlers, and cannot change the object (FLT-10, FLT-11)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := kopf.For(&v1.Widget{})
		resource.When(func(req *kopf.Request[W]) bool {
			req.Object.Spec.Color = "changed" // the predicate changes only a copy
			return req.Reason != kopf.ReasonUpdate || req.Old != nil && req.Old.Spec.Size == 1 && req.Client != nil
		}).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("updated %s %s", req.Object.Spec.Color, req.Diff)
				return nil
			})
		start(ns, options(resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"updated red " + changed(1, 2, "spec", "size")}))
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Color", "red"))
	}, SpecTimeout(minute))
})
