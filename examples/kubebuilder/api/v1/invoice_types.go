package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InvoiceSpec is the desired state of an Invoice.
type InvoiceSpec struct {
	// Cents without tax.
	//
	// +kubebuilder:validation:Minimum=0
	Cents int64 `json:"cents"`
}

// InvoiceStatus is the observed state of an Invoice.
type InvoiceStatus struct {
	// Total in cents, with tax.
	Total int64 `json:"total,omitempty"`
}

// Invoice has an ordinary reconciler: see internal/controller/invoice_controller.go.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`
type Invoice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   InvoiceSpec   `json:"spec"`
	Status InvoiceStatus `json:"status,omitempty"`
}

// InvoiceList is a list of invoices.
//
// +kubebuilder:object:root=true
type InvoiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Invoice `json:"items"`
}

func init() { register(&Invoice{}, &InvoiceList{}) }
