// Package v1 contains the kinds of the example: Rollout.
//
// +kubebuilder:object:generate=true
// +groupName=subhandlers.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "subhandlers.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Rollout{}, &RolloutList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Rollout is the deployment of an image to several regions.
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

// RolloutSpec is the desired state of a Rollout.
type RolloutSpec struct {
	// Image to deploy.
	Image string `json:"image"`
	// Regions to deploy the image to.
	//
	// +listType=set
	Regions []string `json:"regions"`
}

// RolloutStatus is the observed state of a Rollout.
type RolloutStatus struct {
	// Regions with the images that run in them.
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
