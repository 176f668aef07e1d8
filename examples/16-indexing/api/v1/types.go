// Package v1 has the kinds of the example: App.
//
// +kubebuilder:object:generate=true
// +groupName=indexing.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: "indexing.example.com", Version: "v1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &App{}, &AppList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// App asks for a program to be run.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.spec.config`
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AppSpec `json:"spec"`
}

// AppSpec is what its author wants.
type AppSpec struct {
	// Image to be run.
	Image string `json:"image"`
	// Config is the name of a config map, in the namespace of the app, that the program reads when it starts.
	Config string `json:"config,omitempty"`
}

// AppList is a list of apps.
//
// +kubebuilder:object:root=true
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []App `json:"items"`
}
