package garbagecollection

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// crds returns the CustomResourceDefinition of widgets.
func crds() []*apiextensionsv1.CustomResourceDefinition {
	stanza := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return []*apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + v1.GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v1.GroupVersion.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Singular: "widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: v1.GroupVersion.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:       "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": stanza, "status": stanza},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}}
}

// newNamespace creates a namespace for one spec and deletes it at the end of the spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(k8s.Create(ctx, ns)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, ns))).To(Succeed())
	})
	return ns.Name
}

func named(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

func widget(ns, name string) *v1.Widget {
	return &v1.Widget{ObjectMeta: named(ns, name), Spec: v1.WidgetSpec{Size: 1}}
}

func configMap(ns, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: named(ns, name)}
}

func deployment(ns, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"run": name}
	return &appsv1.Deployment{ObjectMeta: named(ns, name), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
		},
	}}
}

func untyped(apiVersion, kind, ns, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(ns)
	obj.SetName(name)
	return obj
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(k8s.Create(ctx, obj)).To(Succeed())
	}
}

// edit updates the object on the server and retries after conflicts.
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

func image(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

func remove(ctx context.Context, obj client.Object, propagation metav1.DeletionPropagation) {
	GinkgoHelper()
	Expect(k8s.Delete(ctx, obj, client.PropagationPolicy(propagation))).To(Succeed())
}

// fresh returns a function that reads the object from the server.
func fresh[T client.Object](ctx context.Context, obj T) func() (T, error) {
	return func() (T, error) {
		out := obj.DeepCopyObject().(T)
		err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), out)
		return out, err
	}
}

// isGone reports whether the object has been deleted. It returns true if another object has the same name now.
func isGone(ctx context.Context, obj client.Object) bool {
	now := obj.DeepCopyObject().(client.Object)
	err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), now)
	return apierrors.IsNotFound(err) || err == nil && now.GetUID() != obj.GetUID()
}

func gone(ctx context.Context, obj client.Object) func() bool {
	return func() bool { return isGone(ctx, obj) }
}

// remaining returns a function that lists the remaining objects.
func remaining(ctx context.Context, objects ...client.Object) func() []string {
	return func() (names []string) {
		for _, obj := range objects {
			if !isGone(ctx, obj) {
				names = append(names, obj.GetName())
			}
		}
		return names
	}
}
