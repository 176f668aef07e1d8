package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// lampGVK is a kind with fields that distinguish null from a default.
var lampGVK = v1.GroupVersion.WithKind("Lamp")

// lampCRD returns the CRD of lamps.
func lampCRD() *apiextensionsv1.CustomResourceDefinition {
	out := crd(lampGVK, true, true)
	yes := &apiextensionsv1.JSON{Raw: []byte("true")}
	out.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte("{}")},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"auto":  {Type: "boolean", Default: yes, Nullable: true},
			"fixed": {Type: "boolean", Default: yes},
			"free":  {Type: "object", XPreserveUnknownFields: new(true)},
		},
	}
	return out
}

// lamp is a lamp with a Go type.
type lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Auto  *bool `json:"auto"`
		Fixed *bool `json:"fixed"`
	} `json:"spec"`
	Status map[string]any `json:"status,omitempty"`
}

func (l *lamp) DeepCopyObject() runtime.Object {
	out := *l
	l.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status = runtime.DeepCopyJSON(l.Status)
	return &out
}

type lampList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []lamp `json:"items"`
}

func (l *lampList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*lamp))
	}
	return &out
}

var _ = Describe("Nulls in the changes of handlers", Ordered, func() {
	type U = *unstructured.Unstructured

	BeforeAll(func() {
		_, err := envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{lampCRD()}})
		Expect(err).NotTo(HaveOccurred())
		scheme.AddKnownTypeWithName(lampGVK, &lamp{})
		scheme.AddKnownTypeWithName(lampGVK.GroupVersion().WithKind("LampList"), &lampList{})
	})
	set := func(obj U, value any, path ...string) {
		GinkgoHelper()
		Expect(unstructured.SetNestedField(obj.Object, value, path...)).To(Succeed())
	}
	stored := func(ctx context.Context, obj client.Object) func() string {
		return func() string {
			now, err := fresh(ctx, untyped(lampGVK, obj.GetNamespace(), obj.GetName()))()
			if err != nil {
				return err.Error()
			}
			text, _ := json.Marshal(map[string]any{"spec": now.Object["spec"], "status": now.Object["status"]})
			return string(text)
		}
	}

	It("are stored in fields that allow them", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(kopf.Unstructured(lampGVK)).
			OnCreate("create", func(_ context.Context, req *kopf.Request[U]) error {
				set(req.Object, nil, "spec", "auto")
				set(req.Object, map[string]any{"a": nil, "b": []any{nil, map[string]any{"c": nil}}}, "spec", "free")
				set(req.Object, map[string]any{"d": nil}, "status", "nothing")
				req.SetResult(map[string]any{"e": nil})
				return nil
			}).
			OnUpdate("update", ok[U](seen, "update"))))
		obj := untyped(lampGVK, ns, "one")
		create(ctx, obj)
		Eventually(stored(ctx, obj)).Should(MatchJSON(`{"spec":{"auto":null,"fixed":true,"free":{"a":null,"b":[null,{"c":null}]}},"status":{"nothing":{"d":null},"create":{}}}`))
		Consistently(seen.all).Should(BeEmpty())
		Expect(fresh(ctx, obj)()).To(HaveField("GetGeneration()", BeEquivalentTo(2)))
	}, SpecTimeout(minute))

	It("are stored by a Go type and by a timer, and keep concurrent changes", func(ctx context.Context) {
		ns, let, called := newNamespace(ctx), make(chan struct{}), make(chan struct{})
		start(ns, options(kopf.For(&lamp{}).
			OnCreate("create", func(ctx context.Context, req *kopf.Request[*lamp]) error {
				close(called)
				awaitClosed(ctx, let)
				req.Object.Spec.Auto = nil
				return nil
			}).
			Timer("timer", daemons.Timer{Interval: 100 * millisecond}, func(_ context.Context, req *kopf.Request[*lamp]) error {
				if req.Object.Labels["ticked"] == "yes" {
					req.Object.Status = map[string]any{"ticked": nil}
				}
				return nil
			})))
		obj := untyped(lampGVK, ns, "one")
		create(ctx, obj)
		awaitClosed(ctx, called)
		edit(ctx, obj, func(u U) { set(u, map[string]any{"by": "a user"}, "spec", "free") })
		close(let)
		Eventually(stored(ctx, obj)).Should(MatchJSON(`{"spec":{"auto":null,"fixed":true,"free":{"by":"a user"}},"status":null}`))
		edit(ctx, obj, func(u U) { u.SetLabels(map[string]string{"ticked": "yes"}) })
		Eventually(stored(ctx, obj)).Should(MatchJSON(`{"spec":{"auto":null,"fixed":true,"free":{"by":"a user"}},"status":{"ticked":null}}`))
	}, SpecTimeout(minute))

	It("are reported if the schema does not allow them", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&lamp{}).
			OnCreate("create", func(_ context.Context, req *kopf.Request[*lamp]) error {
				req.Object.Spec.Fixed = nil
				return nil
			}).
			OnUpdate("update", ok[*lamp](seen, "update"))))
		obj := untyped(lampGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(stored(ctx, obj)()).To(MatchJSON(`{"spec":{"auto":true,"fixed":true},"status":null}`))
		Expect(op.log.find("has set a field that the handler has removed or set to null", `"field"="spec.fixed"`)).To(HaveLen(1))
		Consistently(seen.all).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("are applied to children", func(ctx context.Context) {
		ns := newNamespace(ctx)
		owner := untyped(widgetGVK, ns, "owner")
		create(ctx, owner)
		child := untyped(lampGVK, ns, "child")
		child.Object["spec"] = map[string]any{"auto": nil, "fixed": nil, "free": map[string]any{"a": nil}}
		for _, operation := range []string{"created", "unchanged", "unchanged"} {
			results, err := children.Of(owner, k8s, children.FieldOwner("test")).Apply(ctx, child)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(results[0].Operation)).To(Equal(operation))
			Expect(stored(ctx, child)()).To(MatchJSON(`{"spec":{"auto":null,"fixed":true,"free":{"a":null}},"status":null}`))
		}
	}, SpecTimeout(minute))
})
