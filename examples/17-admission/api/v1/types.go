// Package v1 has the kinds of the example: Bucket.
//
// +kubebuilder:object:generate=true
// +groupName=admission.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: "admission.example.com", Version: "v1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Bucket{}, &BucketList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Bucket is a place for files.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.sizeGiB`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BucketSpec   `json:"spec,omitempty"`
	Status BucketStatus `json:"status,omitempty"`
}

// BucketSpec is what its author wants. What is left out is filled in by the operator.
type BucketSpec struct {
	// SizeGiB is how much fits into it.
	SizeGiB int `json:"sizeGiB,omitempty"`
	// Region in which it is. It cannot move.
	Region string `json:"region,omitempty"`
	// Public lets everybody read it.
	Public bool `json:"public,omitempty"`
}

// BucketStatus is what there is.
type BucketStatus struct {
	// URL at which it is found.
	URL string `json:"url,omitempty"`
}

// BucketList is a list of buckets.
//
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Bucket `json:"items"`
}
