package kopf

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Unstructured returns an object for [For] that declares a kind without a Go type. Handlers receive unstructured objects. Changes are detected
// in all fields, as kopf does.
func Unstructured(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// Metadata returns an object for [For] that declares a kind of which the operator watches and caches only the metadata. The essence consists
// of labels and annotations.
func Metadata(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	return obj
}
