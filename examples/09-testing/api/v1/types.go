// Package v1 contains the kinds of the example: Mailbox.
//
// +kubebuilder:object:generate=true
// +groupName=testing.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "testing.example.com", Version: "v1"}

// AddToScheme registers the kinds with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Mailbox{}, &MailboxList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Mailbox is a mailbox on a mail server.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Quota",type=integer,JSONPath=`.spec.quota`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
type Mailbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MailboxSpec   `json:"spec"`
	Status MailboxStatus `json:"status,omitempty"`
}

// MailboxSpec is the desired state of a Mailbox.
type MailboxSpec struct {
	// Quota in megabytes.
	Quota int `json:"quota"`
}

// MailboxStatus is the observed state of a Mailbox.
type MailboxStatus struct {
	// Address that receives mail.
	Address string `json:"address,omitempty"`
}

// MailboxList is a list of mailboxes.
//
// +kubebuilder:object:root=true
type MailboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Mailbox `json:"items"`
}
