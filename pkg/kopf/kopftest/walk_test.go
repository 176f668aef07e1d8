package kopftest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

const boxCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Box, listKind: BoxList, plural: boxes, singular: box}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [size, code, mode]
            properties:
              size: {type: integer, minimum: 1, maximum: 9}
              code: {type: string, pattern: '^[a-z]{2}-[0-9]+$'}
              mode: {type: string, enum: [fast, safe]}
              ratio: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 1}
              labels: {type: array, x-kubernetes-list-type: set, maxItems: 4, items: {type: string, minLength: 2}}
              limits: {type: object, additionalProperties: {type: integer, multipleOf: 2}}
              port: {x-kubernetes-int-or-string: true}
              until: {type: string, format: date-time}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

type box = *unstructured.Unstructured
type boxRequest = kopf.Request[box]

func boxes() *kopf.Resource[box] {
	return kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Box"}))
}

func boxFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "boxes.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(boxCRD), 0o600)).To(Succeed())
	return path
}

func modeOf(obj box) string {
	mode, _, _ := unstructured.NestedString(obj.Object, "spec", "mode")
	return mode
}

// applyChild applies a child that depends only on the spec.
func applyChild(ctx context.Context, req *boxRequest) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}, Data: map[string]string{"mode": modeOf(req.Object)}}
	_, err := children.Of(req.Object, req.Client, children.FieldOwner("test")).Apply(ctx, child)
	return err
}

func runWalk(t *testing.T, steps int, declare func(*kopf.Resource[box])) string {
	t.Helper()
	w := &walk{seed: 1, file: boxFile(t), steps: steps}
	NewWithT(t).Expect(w.load()).To(Succeed())
	return w.run(t, func() Scenario {
		return Scenario{Operator: func() []kopf.Option {
			r := boxes()
			declare(r)
			return []kopf.Option{r}
		}}
	})
}

func TestWalk_AcceptsHandlersThatDependOnTheSpecOnly(t *testing.T) {
	NewWithT(t).Expect(runWalk(t, 8, func(r *kopf.Resource[box]) {
		r.OnCreateOrUpdate("child", applyChild).
			OnDelete("delete", func(context.Context, *boxRequest) error { return nil })
	})).To(BeEmpty())
}

func TestWalk_FindsDependenciesOnEarlierSpecs(t *testing.T) {
	leftover := func(ctx context.Context, req *boxRequest) error {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.GetNamespace(), Name: modeOf(req.Object)}}
		if err := req.Adopt(child); err != nil {
			return err
		}
		return client.IgnoreAlreadyExists(req.Client.Create(ctx, child))
	}
	orphan := func(ctx context.Context, req *boxRequest) error {
		return client.IgnoreAlreadyExists(req.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child"}}))
	}
	both := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
	for name, test := range map[string]struct {
		declare func(*kopf.Resource[box])
		finds   string
	}{
		"a child of the previous mode remains": {
			func(r *kopf.Resource[box]) { r.On("child", both, leftover) },
			"the state differs from the state after creating an object with the same spec: unexpected object ConfigMap default/",
		},
		"an update handler is missing": {
			func(r *kopf.Resource[box]) { r.OnCreate("child", applyChild) },
			"ConfigMap default/child differs",
		},
		"a child without an owner remains": {
			func(r *kopf.Resource[box]) { r.On("child", both, orphan) },
			"the state after the deletion differs from the state before the creation: unexpected object ConfigMap default/child",
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(runWalk(t, 8, test.declare)).To(ContainSubstring(test.finds))
		})
	}
}

// Random objects match the schema. The same seed creates the same objects.
func TestWalk_MakesValidObjects(t *testing.T) {
	g := NewWithT(t)
	made := func(seed uint64) (texts []string) {
		w := &walk{seed: seed, file: boxFile(t), steps: 40, valid: []func(*unstructured.Unstructured) bool{
			func(obj *unstructured.Unstructured) bool { return modeOf(obj) == "fast" },
		}}
		g.Expect(w.load()).To(Succeed())
		cluster := Memory(t, CRDs(w.file))
		for _, obj := range w.objects(t, Scenario{}) {
			g.Expect(modeOf(obj)).To(Equal("fast"))
			err := cluster.Client.Create(t.Context(), obj.DeepCopy(), client.DryRunAll)
			g.Expect(apierrors.IsInvalid(err)).To(BeFalse(), "%v", err)
			texts = append(texts, fieldsOf(obj))
		}
		return texts
	}
	first := made(1)
	g.Expect(first).To(HaveLen(40))
	g.Expect(made(1)).To(Equal(first))
	g.Expect(made(2)).NotTo(Equal(first))
	all := strings.Join(first, "\n")
	for _, field := range []string{"size", "code", "mode", "ratio", "labels", "limits", "port", "until"} {
		g.Expect(all).To(ContainSubstring(`"`+field+`"`), field)
	}
}

func TestWalk_RejectsInvalidNumbersOfSteps(t *testing.T) {
	for _, steps := range []int{0, -1} {
		w := &walk{seed: 1, file: boxFile(t), steps: steps}
		NewWithT(t).Expect(w.load()).To(MatchError(fmt.Sprintf("the number of steps must be positive, got %d", steps)))
	}
}
