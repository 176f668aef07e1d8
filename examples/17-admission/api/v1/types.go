// Package v1 contains the kinds of the example: Bucket.
//
// +kubebuilder:object:generate=true
// +groupName=admission.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "admission.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Bucket{}, &BucketList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Bucket is a store for files.
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

// BucketSpec is the desired state of a Bucket. The operator sets missing values.
type BucketSpec struct {
	// SizeGiB is the capacity.
	SizeGiB int `json:"sizeGiB,omitempty"`
	// Region of the bucket. It is immutable.
	Region string `json:"region,omitempty"`
	// Public allows anyone to read the bucket.
	Public bool `json:"public,omitempty"`
}

// BucketStatus is the observed state of a Bucket.
type BucketStatus struct {
	// URL of the bucket.
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
