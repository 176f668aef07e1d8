// Package v1 contains the kinds of the example: Backup.
//
// +kubebuilder:object:generate=true
// +groupName=exceptions.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "exceptions.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Backup{}, &BackupList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Backup is a copy of a volume.
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

// BackupSpec is the desired state of a Backup.
type BackupSpec struct {
	// Volume to copy.
	Volume string `json:"volume"`
	// Target of the copy, as a URL. Only s3 is supported.
	Target string `json:"target"`
}

// BackupStatus is the observed state of a Backup.
type BackupStatus struct {
	// Snapshot is the name of the snapshot of the volume.
	Snapshot string `json:"snapshot,omitempty"`
	// Problem is an error that only a change of the spec can fix.
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
