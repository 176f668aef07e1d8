package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OrderSpec is the desired state of an Order.
type OrderSpec struct {
	// Item to buy.
	//
	// +kubebuilder:validation:MinLength=1
	Item string `json:"item"`
	// Quantity to buy.
	//
	// +kubebuilder:validation:Minimum=1
	Quantity int32 `json:"quantity"`
}

// OrderStatus is the observed state of an Order.
type OrderStatus struct {
	// Reserved is the number of items that are reserved for this order.
	Reserved int32 `json:"reserved,omitempty"`
	// Conditions of the object.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Order has kopf handlers: see internal/controller/order_controller.go.
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
