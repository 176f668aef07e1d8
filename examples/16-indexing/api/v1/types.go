// Package v1 contains the kinds of the example: App.
//
// +kubebuilder:object:generate=true
// +groupName=indexing.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "indexing.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &App{}, &AppList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// App is a running program.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.spec.config`
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AppSpec `json:"spec"`
}

// AppSpec is the desired state of an App.
type AppSpec struct {
	// Image to run.
	Image string `json:"image"`
	// Config is the name of a config map in the namespace of the app. The program reads it when it starts.
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
