package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var baselineKey = progress.DefaultPrefix + "/last-handled-configuration"

// newNamespace creates a namespace for one spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(k8s.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

func widget(namespace, name string) *v1.Widget {
	return &v1.Widget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.WidgetSpec{Size: 1, Color: "red"},
	}
}

func untyped(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	obj := kopf.Unstructured(gvk)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.Object["spec"] = map[string]any{"size": int64(1), "color": "red"}
	return obj
}

func create(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, obj)).To(Succeed())
}

// edit changes the object on the server, and retries conflicts.
func edit[T client.Object](ctx context.Context, obj T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return k8s.Update(ctx, obj)
	}).Should(Succeed())
}

func remove(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Expect(k8s.Delete(ctx, obj)).To(Succeed())
}

// fresh returns a function that reads the object from the server.
func fresh[T client.Object](ctx context.Context, obj T) func() (T, error) {
	return func() (T, error) {
		out := obj.DeepCopyObject().(T)
		err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), out)
		return out, err
	}
}

// gone returns a function that reports whether the object no longer exists.
func gone(ctx context.Context, obj client.Object) func() bool {
	return func() bool {
		return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object)))
	}
}

// digestAnnotation stores the digest of an essence that is too large.
var digestAnnotation = fmt.Sprint(progress.Digest(progress.AnnotationBaseline("")))

// records returns the handler ids with records on the object.
func records(obj client.Object) []string {
	var ids []string
	for key := range obj.GetAnnotations() {
		id, ours := strings.CutPrefix(key, progress.DefaultPrefix+"/")
		if ours && !strings.HasPrefix(id, "state-of-") && !slices.Contains([]string{baselineKey, pinKey, digestAnnotation}, key) {
			ids = append(ids, id)
		}
	}
	return ids
}

// handled waits until the object has a baseline and no records.
func handled(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now, err := fresh(ctx, obj)()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now.GetAnnotations()).To(HaveKey(baselineKey))
		g.Expect(records(now)).To(BeEmpty())
	}).Should(Succeed())
}

// held waits until the object has the finalizer. If there are only delete handlers, nothing else is written.
func held(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Eventually(fresh(ctx, obj)).Should(HaveField("GetFinalizers()", Not(BeEmpty())))
}

func keyOf(obj client.Object) client.ObjectKey { return client.ObjectKeyFromObject(obj) }
