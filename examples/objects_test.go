package examples

import (
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An object is a sample of an example, or an object in the cluster that the example creates.
type object struct {
	*example
	manifest *unstructured.Unstructured // content of the sample file
}

// sample returns the sample with a name.
func (e *example) sample(name string) object {
	e.t.Helper()
	for _, obj := range e.manifests("samples") {
		if obj.GetName() == name {
			return object{e, obj}
		}
	}
	e.t.Fatalf("%s has no sample %q", e.name, name)
	panic("unreachable")
}

func (o object) create() {
	o.t.Helper()
	o.Expect(o.client.Create(o.t.Context(), o.manifest.DeepCopy())).To(Succeed())
}

func (o object) patch(document string) {
	o.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(document))
	o.Expect(o.client.Patch(o.t.Context(), o.manifest.DeepCopy(), patch)).To(Succeed())
}

func (o object) patchStatus(document string) {
	o.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(document))
	o.Expect(o.client.Status().Patch(o.t.Context(), o.manifest.DeepCopy(), patch)).To(Succeed())
}

// delete deletes the object, and waits until it does not exist.
func (o object) delete() {
	o.t.Helper()
	o.Expect(o.client.Delete(o.t.Context(), o.manifest.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
	o.Eventually(func() bool {
		err := o.client.Get(o.t.Context(), client.ObjectKeyFromObject(o.manifest), o.manifest.DeepCopy())
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "the object still exists")
}

// get returns a field of the object, or nil if it is missing.
func (o object) get(path ...string) any {
	o.t.Helper()
	value, err := o.field(path...)()
	o.Expect(err).NotTo(HaveOccurred())
	return value
}

func (o object) field(path ...string) func() (any, error) {
	return func() (any, error) {
		obj := o.manifest.DeepCopy()
		if err := o.client.Get(o.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return nil, err
		}
		value, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		return value, err
	}
}

// events returns the reasons and notes of the Kubernetes Events about the object.
func (o object) events() ([]string, error) {
	var list eventsv1.EventList
	if err := o.client.List(o.t.Context(), &list, client.InNamespace("default")); err != nil {
		return nil, err
	}
	var notes []string
	for _, event := range list.Items {
		if event.Regarding.Kind == o.manifest.GetKind() && event.Regarding.Name == o.manifest.GetName() {
			notes = append(notes, event.Reason+": "+event.Note)
		}
	}
	return notes, nil
}
