// Package v1 has the kinds of the example: Backup.
//
// +kubebuilder:object:generate=true
// +groupName=exceptions.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: "exceptions.example.com", Version: "v1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Backup{}, &BackupList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Backup asks for a copy of a volume.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target`
// +kubebuilder:printcolumn:name="Snapshot",type=string,JSONPath=`.status.snapshot`
// +kubebuilder:printcolumn:name="Problem",type=string,JSONPath=`.status.problem`
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupSpec   `json:"spec"`
	Status BackupStatus `json:"status,omitempty"`
}

// BackupSpec is what its author wants.
type BackupSpec struct {
	// Volume to be copied.
	Volume string `json:"volume"`
	// Target is where the copy goes, as a URL. Only s3 is supported.
	Target string `json:"target"`
}

// BackupStatus is how far the operator has come.
type BackupStatus struct {
	// Snapshot of the volume, once there is one.
	Snapshot string `json:"snapshot,omitempty"`
	// Problem that only a change of the spec can solve.
	Problem string `json:"problem,omitempty"`
}

// BackupList is a list of backups.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Backup `json:"items"`
}
