// Package v1 contains the kinds of the benchmark: two kinds that differ only in the way their status is written.
//
// +kubebuilder:object:generate=true
// +groupName=bench.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GroupVersion of the kinds.
var GroupVersion = schema.GroupVersion{Group: "bench.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Widget{}, &WidgetList{}, &Gadget{}, &GadgetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// An Object is an object of either kind.
//
// +kubebuilder:object:generate=false
type Object interface {
	client.Object
	Content() (*Spec, *Status)
}

// Spec is the desired state, with the size of a small custom resource.
type Spec struct {
	Size     int               `json:"size"`
	Image    string            `json:"image,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
}

// Status is the observed state.
type Status struct {
	Phase   string `json:"phase,omitempty"`
	Size    int    `json:"size,omitempty"`
	Address string `json:"address,omitempty"`
	Owner   string `json:"owner,omitempty"`
}

// Widget is a kind with the status subresource.
//
// +kubebuilder:object:root=true
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Content returns the fields that both kinds have.
func (w *Widget) Content() (*Spec, *Status) { return &w.Spec, &w.Status }

// WidgetList is a list of widgets.
//
// +kubebuilder:object:root=true
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

// Gadget is a kind without the status subresource.
//
// +kubebuilder:object:root=true
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Content returns the fields that both kinds have.
func (g *Gadget) Content() (*Spec, *Status) { return &g.Spec, &g.Status }

// GadgetList is a list of gadgets.
//
// +kubebuilder:object:root=true
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Gadget `json:"items"`
}
