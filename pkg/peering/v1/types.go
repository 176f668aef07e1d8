package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// API groups and version of the kinds.
const (
	Group       = "kopf.dev"
	LegacyGroup = "zalando.org"
	Version     = "v1"
)

// Plural names of the kinds, equal in both groups.
const (
	ClusterPlural    = "clusterkopfpeerings"
	NamespacedPlural = "kopfpeerings"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme adds the kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterKopfPeering{}, &ClusterKopfPeeringList{}, &KopfPeering{}, &KopfPeeringList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Records contains the records of operators by identity. Each value is the JSON form of a peering.Record. It isn't decoded, so that clients
// don't change unreadable records.
type Records map[string]apiextensionsv1.JSON

// ClusterKopfPeering contains the records of operators that serve the whole cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ClusterKopfPeering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status contains the records of the operators, which they write themselves.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Records `json:"status,omitempty"`
}

// ClusterKopfPeeringList is a list of ClusterKopfPeering objects.
//
// +kubebuilder:object:root=true
type ClusterKopfPeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterKopfPeering `json:"items"`
}

// KopfPeering contains the records of operators that serve its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
type KopfPeering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status contains the records of the operators, which they write themselves.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Records `json:"status,omitempty"`
}

// KopfPeeringList is a list of KopfPeering objects.
//
// +kubebuilder:object:root=true
type KopfPeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KopfPeering `json:"items"`
}
