// Package v1 contains the kinds of the example: Bucket.
//
// +kubebuilder:object:generate=true
// +groupName=conditions.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "conditions.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Bucket{}, &BucketList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Bucket is a part of a store.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.sizeGiB`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BucketSpec   `json:"spec"`
	Status BucketStatus `json:"status,omitempty"`
}

// BucketSpec is the desired state of a Bucket.
type BucketSpec struct {
	// Store that contains the bucket.
	Store string `json:"store"`
	// SizeGiB is the capacity.
	//
	// +kubebuilder:validation:Minimum=1
	SizeGiB int `json:"sizeGiB"`
}

// BucketStatus is the observed state of a Bucket.
type BucketStatus struct {
	// Files is the number of files in the bucket.
	Files int `json:"files,omitempty"`
	// Conditions of the bucket.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BucketList is a list of buckets.
//
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Bucket `json:"items"`
}
