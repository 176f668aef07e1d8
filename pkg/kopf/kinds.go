package kopf

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Unstructured returns an object for [For] that declares a kind without a Go type. Handlers then receive unstructured objects, and the
// operator detects changes to all fields of the essence, as kopf does. With a Go type, it only detects changes to the fields of that type.
func Unstructured(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// Metadata returns an object for [For] that declares a kind by its metadata. The operator watches and caches only the metadata of the
// objects, so the essence consists of the labels and annotations.
func Metadata(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	return obj
}
