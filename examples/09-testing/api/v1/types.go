// Package v1 has the kinds of the example: Mailbox.
//
// +kubebuilder:object:generate=true
// +groupName=testing.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: "testing.example.com", Version: "v1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Mailbox{}, &MailboxList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Mailbox is one on a mail server.
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

// MailboxSpec is what its owner wants.
type MailboxSpec struct {
	// Quota in megabytes.
	Quota int `json:"quota"`
}

// MailboxStatus is how far the operator has come.
type MailboxStatus struct {
	// Address under which it gets mail.
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
