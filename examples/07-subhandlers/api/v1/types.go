// Package v1 has the kinds of the example: Rollout.
//
// +kubebuilder:object:generate=true
// +groupName=subhandlers.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: "subhandlers.example.com", Version: "v1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Rollout{}, &RolloutList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Rollout asks for an image to run in several regions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Regions",type=string,JSONPath=`.status.regions`
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RolloutSpec   `json:"spec"`
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutSpec is what its author wants.
type RolloutSpec struct {
	// Image to be run.
	Image string `json:"image"`
	// Regions in which it is to run.
	//
	// +listType=set
	Regions []string `json:"regions"`
}

// RolloutStatus is how far the operator has come.
type RolloutStatus struct {
	// Regions with the images that run there.
	Regions map[string]string `json:"regions,omitempty"`
}

// RolloutList is a list of rollouts.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Rollout `json:"items"`
}
