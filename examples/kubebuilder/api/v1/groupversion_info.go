// Package v1 has the kinds of a shop: Order, Invoice, Parcel.
//
// +kubebuilder:object:generate=true
// +groupName=shop.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is that of the kinds.
	GroupVersion = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

	// SchemeBuilder collects the kinds of this folder.
	SchemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		metav1.AddToGroupVersion(scheme, GroupVersion)
		return nil
	})

	// AddToScheme makes them known to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// register is for the files with the kinds.
func register(objects ...runtime.Object) {
	SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, objects...)
		return nil
	})
}
