package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// annotationsLimit is the maximum number of bytes of all annotation keys and values of an object.
const annotationsLimit = 256 << 10

var createUpdateOrDelete = []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}

// fill adds an annotation that leaves no space for annotations of the engine.
func fill(obj *v1.Widget) {
	const key = "example.com/filler"
	if obj.Annotations == nil {
		obj.Annotations = map[string]string{}
	}
	delete(obj.Annotations, key)
	left := annotationsLimit - len(key)
	for other, value := range obj.Annotations {
		left -= len(other) + len(value)
	}
	obj.Annotations[key] = strings.Repeat("x", left)
}

// forbidAnnotations makes the API server deny changes of annotations with kopf's prefix in a namespace.
func forbidAnnotations(ctx context.Context, ns string) {
	GinkgoHelper()
	name := ns + ".example.com"
	rule := admissionregistrationv1.Rule{
		APIGroups: []string{v1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"widgets"},
	}
	const same = "variables.%s.all(k, !k.startsWith('kopf.') || k in variables.%s && variables.old[k] == variables.new[k])"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update}, Rule: rule,
				}}},
			},
			Variables: []admissionregistrationv1.Variable{
				{Name: "new", Expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"},
				{Name: "old", Expression: "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"},
			},
			Validations: []admissionregistrationv1.Validation{
				{Expression: fmt.Sprintf(same, "new", "old")}, {Expression: fmt.Sprintf(same, "old", "new")},
			},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			},
		},
	}
	for _, obj := range []client.Object{policy, binding} {
		Expect(k8s.Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, obj))).To(Succeed()) })
	}
	probe := widget(ns, "probe")
	create(ctx, probe)
	Eventually(func() error {
		probe.Annotations = map[string]string{baselineKey: fmt.Sprint(probe.ResourceVersion)}
		return k8s.Patch(ctx, probe.DeepCopy(), client.MergeFrom(widget(ns, "probe")), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("denied request")))
	Expect(k8s.Delete(ctx, probe)).To(Succeed())
}

var _ = Describe("Records that the API server rejects (B-31)", func() {
	type W = *v1.Widget
	DescribeTable("block neither handlers nor the deletion",
		func(ctx context.Context, prepare func(ctx context.Context, ns string, obj W)) {
			ns, seen, patches := newNamespace(ctx), &calls{}, &patchRecorder{}
			obj := widget(ns, "one")
			prepare(ctx, ns, obj)
			start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Ready")).
				On("quick", createUpdateOrDelete, ok[W](seen, "quick")).
				On("slow", createUpdateOrDelete, failsUntil[W](seen, "slow", 2, kopf.Temporary(errors.New("not yet"), 50*millisecond))).
				On("writer", createUpdateOrDelete, func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("writer:%s", req.Reason)
					req.Object.Spec.Color = "painted"
					return nil
				})), patches.setup())
			create(ctx, obj)
			var want []string
			for _, reason := range []string{"create", "update", "delete"} {
				switch reason {
				case "update":
					edit(ctx, obj, func(w W) { w.Spec.Size = 7 })
				case "delete":
					remove(ctx, obj)
				}
				want = append(want, "quick:"+reason, "slow:"+reason+"#0", "slow:"+reason+"#1", "slow:"+reason+"#2", "writer:"+reason)
				sorted := slices.Sorted(slices.Values(want))
				Eventually(func() []string { return slices.Sorted(slices.Values(seen.all())) }).Should(Equal(sorted))
				if reason != "delete" {
					Eventually(fresh(ctx, obj)).Should(And(
						HaveField("Spec.Color", "painted"),
						HaveField("Status.Conditions", ContainElement(And(HaveField("Type", "ProgressNotStored"), HaveField("Reason", "Rejected"))))))
				}
			}
			Eventually(gone(ctx, obj)).Should(BeTrue())
			Consistently(seen.all, quietTime).Should(HaveLen(len(want)))
			Expect(len(patches.all())).To(BeNumerically("<=", 30), "number of patches")

			var events eventsv1.EventList
			Eventually(func() ([]eventsv1.Event, error) {
				err := k8s.List(ctx, &events, client.InNamespace(ns))
				return slices.DeleteFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason != "ProgressNotStored" }), err
			}).Should(ConsistOf(HaveField("Type", "Warning")))
		},
		Entry("because other clients have filled the annotations", SpecTimeout(minute), func(_ context.Context, _ string, obj W) { fill(obj) }),
		Entry("because a policy denies it", SpecTimeout(minute), func(ctx context.Context, ns string, _ W) { forbidAnnotations(ctx, ns) }),
	)

	It("are stored when the annotations have space for them", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		fill(obj)
		op := start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Ready")).On("any", createUpdateOrDelete, ok[W](seen, "any"))))
		create(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Status.Conditions", ContainElement(HaveField("Type", "ProgressNotStored"))))
		edit(ctx, obj, func(w W) { w.Annotations = nil })
		Eventually(fresh(ctx, obj)).Should(And(
			HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring("size"))),
			HaveField("Status.Conditions", ConsistOf(HaveField("Type", "Ready")))))
		Expect(op.log.find("kept in memory is stored")).NotTo(BeEmpty())
		Expect(seen.all()).To(Equal([]string{"any:create", "any:update"}))
	}, SpecTimeout(minute))
})
