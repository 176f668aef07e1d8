package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The groups that serve the kinds. [wire]
const (
	Group       = "kopf.dev"
	LegacyGroup = "zalando.org"
	Version     = "v1"
)

// The plurals of the kinds, the same in both groups. [wire]
const (
	ClusterPlural    = "clusterkopfpeerings"
	NamespacedPlural = "kopfpeerings"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterKopfPeering{}, &ClusterKopfPeeringList{}, &KopfPeering{}, &KopfPeeringList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Records are what operators tell of themselves, by their identities. They are raw: what cannot be read is to
// survive. Each value is the JSON of a peering.Record.
type Records map[string]apiextensionsv1.JSON

// ClusterKopfPeering is where operators meet that serve the whole cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ClusterKopfPeering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status has the records of the operators. They write it, nobody else needs to.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Records `json:"status,omitempty"`
}

// ClusterKopfPeeringList is a list of them.
//
// +kubebuilder:object:root=true
type ClusterKopfPeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterKopfPeering `json:"items"`
}

// KopfPeering is where operators meet that serve its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
type KopfPeering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status has the records of the operators. They write it, nobody else needs to.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Records `json:"status,omitempty"`
}

// KopfPeeringList is a list of them.
//
// +kubebuilder:object:root=true
type KopfPeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KopfPeering `json:"items"`
}
