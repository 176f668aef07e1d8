package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("The loop guard", func() {
	type W = *v1.Widget
	timestamp := func() string { return time.Now().Format(time.RFC3339Nano) }
	looping := func(ctx context.Context, obj W, changes string) {
		GinkgoHelper()
		message := "The handlers of the object cause their own calls, which are delayed: " + changes
		Eventually(fresh(ctx, obj)).Should(conditionstest.HaveCondition("HandlerLoop", metav1.ConditionTrue).WithReason("OwnChanges").WithMessage(message))
		Eventually(eventsOf(ctx, obj)).Should(ConsistOf("Warning HandlerLoop Handle: " + message))
	}

	DescribeTable("delays the calls that handlers cause themselves, names the handlers and fields, and ends with the loop",
		func(ctx context.Context, declare func(r *kopf.Resource[W], seen *calls), changes string) {
			ns, seen := newNamespace(ctx), &calls{}
			obj := widget(ns, "one")
			r := kopf.For(&v1.Widget{}, kopf.WithConditions("Synced"))
			declare(r, seen)
			op := start(ns, options(r))
			create(ctx, obj)
			handled(ctx, obj)
			Expect(patch(ctx, k8s, obj, `{"spec": {"color": "blue"}}`)).To(Succeed())
			looping(ctx, obj, changes)
			Eventually(func() int { return len(seen.all()) }).Should(BeNumerically(">=", 13)) // the next delays are 4 and 8 seconds
			calls := len(seen.all())
			Consistently(func() int { return len(seen.all()) }, time.Second).Should(BeNumerically("<=", calls+2))
			Expect(op.log.find("the next calls are delayed")).To(HaveLen(1))
			op.stop()

			start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Synced")).OnUpdate("fixed", ok[W](seen, "fixed")).OnReconcile("level", ok[W](seen, "level"))))
			Eventually(fresh(ctx, obj)).Should(Not(conditionstest.HaveCondition("HandlerLoop", metav1.ConditionTrue)))
		},
		Entry("in the spec, with a client", func(r *kopf.Resource[W], seen *calls) {
			r.OnUpdate("touch", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("touch")
				return patch(ctx, req.Client, req.Object, fmt.Sprintf(`{"spec": {"color": %q}}`, timestamp()))
			})
		}, `"touch" changes spec.color`, SpecTimeout(2*minute)),
		Entry("in a field of the status that they watch", func(r *kopf.Resource[W], seen *calls) {
			r.OnUpdate("begin", func(_ context.Context, req *kopf.Request[W]) error {
				req.Object.Status.Phase = timestamp()
				return nil
			}, kopf.Field("spec.color")).
				OnField("touch", "status.phase", func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("touch")
					req.Object.Status.Phase = timestamp()
					return nil
				})
		}, `"begin/spec.color" changes status.phase, "touch/status.phase" changes status.phase`, SpecTimeout(2*minute)),
		Entry("in a reconcile handler", func(r *kopf.Resource[W], seen *calls) {
			r.OnReconcile("touch", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("touch")
				mine := req.Object.DeepCopy()
				mine.Status.Phase = timestamp()
				return req.Client.Status().Patch(ctx, mine, client.MergeFrom(req.Object))
			}).OnUpdate("updated", func(context.Context, *kopf.Request[W]) error { return nil })
		}, `"touch" changes status.phase`, SpecTimeout(2*minute)),
		Entry("in two handlers that trigger each other", func(r *kopf.Resource[W], seen *calls) {
			r.OnUpdate("a", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("a")
				req.Object.Status.Phase = timestamp()
				return nil
			}, kopf.Field("spec.color")).
				OnField("b", "status.phase", func(ctx context.Context, req *kopf.Request[W]) error {
					seen.notef("b")
					return patch(ctx, req.Client, req.Object, fmt.Sprintf(`{"spec": {"color": %q}}`, timestamp()))
				})
		}, `"a/spec.color" changes status.phase, "b/status.phase" changes spec.color`, SpecTimeout(2*minute)),
	)

	It("handles a change by another client during a delay without a delay", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithLoopGuard(5)).
			OnUpdate("touch", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("size %d", req.Object.Spec.Size)
				return patch(ctx, req.Client, req.Object, fmt.Sprintf(`{"spec": {"color": %q}}`, timestamp()))
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(patch(ctx, k8s, obj, `{"spec": {"size": 2}}`)).To(Succeed())
		Eventually(func() int { return len(seen.all()) }, minute).Should(Equal(10)) // the next delay is 16 seconds
		Expect(patch(ctx, k8s, obj, `{"spec": {"size": 3}}`)).To(Succeed())
		Eventually(seen.all, 10*time.Second).Should(ContainElement("size 3"))
	}, SpecTimeout(2*minute))

	It("does not delay a chain of five steps", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Synced")).
			OnField("step", "status.phase", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s", req.Object.Status.Phase)
				if next := len(req.Object.Status.Phase); next < 5 {
					req.Object.Status.Phase += "x"
				}
				return nil
			})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Expect(k8s.Status().Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "x"}}`)))).To(Succeed())
		want := []string{"x", "xx", "xxx", "xxxx", "xxxxx"}
		Eventually(seen.all).Should(Equal(want))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(Equal(want))
		Expect(eventsOf(ctx, obj)()).To(BeEmpty())
		Expect(fresh(ctx, obj)()).NotTo(conditionstest.HaveCondition("HandlerLoop", metav1.ConditionTrue))
	}, SpecTimeout(minute))
})

// patch sends a merge patch.
func patch(ctx context.Context, c client.Client, obj client.Object, doc string) error {
	return c.Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(doc)))
}
