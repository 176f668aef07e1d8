package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OrderSpec is what somebody wants to buy.
type OrderSpec struct {
	// Item that is wanted.
	//
	// +kubebuilder:validation:MinLength=1
	Item string `json:"item"`
	// Quantity that is wanted.
	//
	// +kubebuilder:validation:Minimum=1
	Quantity int32 `json:"quantity"`
}

// OrderStatus is what there is for them.
type OrderStatus struct {
	// Reserved is how many are kept for this order.
	Reserved int32 `json:"reserved,omitempty"`
	// Conditions say how it is.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Order is handled by kopf handlers: see internal/controller/order_controller.go.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Item",type=string,JSONPath=`.spec.item`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.quantity`
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.reserved`
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OrderSpec   `json:"spec"`
	Status OrderStatus `json:"status,omitempty"`
}

// OrderList is a list of orders.
//
// +kubebuilder:object:root=true
type OrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Order `json:"items"`
}

func init() { register(&Order{}, &OrderList{}) }
