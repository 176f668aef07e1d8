package apiserver

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/internal/crdschema"
)

// builtins returns a scheme with the built-in kinds. We don't use client-go's scheme, because programs can add their own kinds to it.
var builtins = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	return scheme
})

var codecs = sync.OnceValue(func() serializer.CodecFactory { return serializer.NewCodecFactory(builtins()) })

func isBuiltin(r Resource) bool { return builtins().Recognizes(r.gvk()) }

// normalize converts an object to its Go type and back, which drops unknown fields and normalizes numbers and quantities. For custom kinds,
// only the metadata has a Go type. The other fields are pruned and defaulted if the kind has a schema.
func (s *Server) normalize(r Resource, obj object) (object, error) {
	if !isBuiltin(r) {
		return s.applySchema(r, obj, (*crdschema.Schema).PruneAndDefault)
	}
	typed, err := builtins().New(r.gvk())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, typed); err != nil {
		return nil, fmt.Errorf("%s in version %q cannot be handled as a %s: %w", r.Kind, r.GroupVersion.Version, r.Kind, err)
	}
	if secret, ok := typed.(*corev1.Secret); ok {
		mergeStringData(secret)
	}
	if typed, err = roundTripStorage(r, typed); err != nil {
		return nil, err
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = r.GroupVersion.String(), r.Kind
	return out, nil
}

// applySchema converts a custom object's metadata to its Go type and back, and applies change to the other fields if the kind has a schema.
func (s *Server) applySchema(r Resource, obj object, change func(*crdschema.Schema, map[string]any)) (object, error) {
	meta, err := metaAs(obj)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, err
	}
	obj = withField(obj, "metadata", fields)
	shape, err := s.schemaOf(r)
	if shape == nil || err != nil {
		return obj, err
	}
	obj = runtime.DeepCopyJSON(obj)
	change(shape, obj)
	return obj, nil
}

// schemaOf returns a kind's schema, or nil if it doesn't have one.
func (s *Server) schemaOf(r Resource) (*crdschema.Schema, error) {
	if r.schema == nil {
		return nil, nil
	}
	if known := s.schemas[r.gvk()]; known != nil {
		return known, nil
	}
	out, err := crdschema.New(r.schema)
	if err != nil {
		return nil, fmt.Errorf("apiserver: the schema of %s: %w", r.Kind, err)
	}
	s.schemas[r.gvk()] = out
	return out, nil
}

// roundTripStorage encodes and decodes a built-in object as protobuf, as the storage of a real server does. Empty lists and maps are lost
// on the way.
func roundTripStorage(r Resource, obj runtime.Object) (runtime.Object, error) {
	from, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return obj, nil
	}
	out, err := builtins().New(r.gvk())
	if err != nil {
		return nil, err
	}
	to, ok := out.(interface{ Unmarshal([]byte) error })
	if !ok {
		return obj, nil
	}
	stored, err := from.Marshal()
	if err != nil {
		return nil, err
	}
	return out, to.Unmarshal(stored)
}

// mergeStringData moves a Secret's stringData to its data, and sets the default type.
func mergeStringData(secret *corev1.Secret) {
	for name, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[name] = []byte(value)
	}
	secret.StringData = nil
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
}

// isOneOf reports whether a kind is in a list of names like <plural>[.<group>].
func isOneOf(r Resource, list []string) bool { return slices.Contains(list, r.gr().String()) }

// hasGeneration reports whether objects of a kind have a metadata.generation, as all custom kinds and some built-in kinds do.
func hasGeneration(r Resource) bool { return !isBuiltin(r) || isOneOf(r, builtinsWithGeneration) }

var builtinsWithGeneration = []string{
	"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps", "cronjobs.batch", "jobs.batch",
	"pods", "podtemplates", "replicationcontrollers", "endpointslices.discovery.k8s.io", "ingressclasses.networking.k8s.io",
	"ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "poddisruptionbudgets.policy",
	"priorityclasses.scheduling.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "deviceclasses.resource.k8s.io",
	"devicetaintrules.resource.k8s.io", "resourceslices.resource.k8s.io",
	"mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingadmissionpolicies.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
}

// allowsUnconditionalUpdate reports whether an update may omit the resourceVersion.
func allowsUnconditionalUpdate(r Resource) bool {
	return isBuiltin(r) && !isOneOf(r, kindsWithRequiredVersion)
}

var kindsWithRequiredVersion = []string{
	"leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io", "poddisruptionbudgets.policy", "runtimeclasses.node.k8s.io",
	"csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "volumeattachments.storage.k8s.io",
	"clustertrustbundles.certificates.k8s.io", "podcertificaterequests.certificates.k8s.io",
	"storageversionmigrations.storagemigration.k8s.io", "storageversions.internal.apiserver.k8s.io",
	"mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingadmissionpolicies.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
}

// createsOnUpdate reports whether a PUT creates a missing object.
func createsOnUpdate(r Resource) bool { return isBuiltin(r) && isOneOf(r, kindsCreatedByUpdate) }

var kindsCreatedByUpdate = []string{
	"runtimeclasses.node.k8s.io", "rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	"roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io", "leases.coordination.k8s.io",
	"leasecandidates.coordination.k8s.io", "limitranges", "events", "events.events.k8s.io", "services", "endpoints",
}

// returnsDeleted reports whether the server answers a completed deletion with the object. For other kinds, it answers with a Status.
func returnsDeleted(r Resource) bool { return isBuiltin(r) && isOneOf(r, kindsReturnedByDelete) }

var kindsReturnedByDelete = []string{
	"namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts", "services",
	"deviceclasses.resource.k8s.io", "devicetaintrules.resource.k8s.io", "resourceclaims.resource.k8s.io",
	"resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io",
	"storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io",
}

// clusterScopedKinds are the cluster-scoped kinds of Kubernetes, including CustomResourceDefinition and APIService.
var clusterScopedKinds = []string{
	"ComponentStatus", "Namespace", "Node", "PersistentVolume",
	"APIService.apiregistration.k8s.io", "CustomResourceDefinition.apiextensions.k8s.io",
	"MutatingAdmissionPolicy.admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"MutatingWebhookConfiguration.admissionregistration.k8s.io", "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io", "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
	"CertificateSigningRequest.certificates.k8s.io", "ClusterTrustBundle.certificates.k8s.io",
	"FlowSchema.flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
	"StorageVersion.internal.apiserver.k8s.io", "StorageVersionMigration.storagemigration.k8s.io",
	"IngressClass.networking.k8s.io", "IPAddress.networking.k8s.io", "ServiceCIDR.networking.k8s.io", "RuntimeClass.node.k8s.io",
	"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io", "PriorityClass.scheduling.k8s.io",
	"DeviceClass.resource.k8s.io", "DeviceTaintRule.resource.k8s.io", "ResourceSlice.resource.k8s.io",
	"ResourcePoolStatusRequest.resource.k8s.io",
	"CSIDriver.storage.k8s.io", "CSINode.storage.k8s.io", "StorageClass.storage.k8s.io", "VolumeAttachment.storage.k8s.io",
	"VolumeAttributesClass.storage.k8s.io",
}

// initialPhases are the status.phase values that new objects of some built-in kinds get.
var initialPhases = map[schema.GroupResource]string{
	{Resource: "namespaces"}: "Active", {Resource: "pods"}: "Pending",
	{Resource: "persistentvolumes"}: "Pending", {Resource: "persistentvolumeclaims"}: "Pending",
}

func nameValidator(r Resource) validation.ValidateNameFunc {
	switch {
	case r.GroupVersion.Group == "rbac.authorization.k8s.io":
		return pathSegment
	case r.gr() == schema.GroupResource{Resource: "namespaces"}:
		return validation.ValidateNamespaceName
	default:
		return validation.NameIsDNSSubdomain
	}
}
