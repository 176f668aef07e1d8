package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ParcelSpec is the desired state of a Parcel.
type ParcelSpec struct {
	// Address of the receiver.
	//
	// +kubebuilder:validation:MinLength=1
	Address string `json:"address"`
}

// ParcelStatus is the observed state of a Parcel.
type ParcelStatus struct {
	// Label on the parcel.
	Label string `json:"label,omitempty"`
}

// Parcel has a reconciler that kopf calls, and a handler: see internal/controller/parcel_controller.go.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Label",type=string,JSONPath=`.status.label`
type Parcel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ParcelSpec   `json:"spec"`
	Status ParcelStatus `json:"status,omitempty"`
}

// ParcelList is a list of parcels.
//
// +kubebuilder:object:root=true
type ParcelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Parcel `json:"items"`
}

func init() { register(&Parcel{}, &ParcelList{}) }
