package patch

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// equalMetadata reports whether two metadata have the same JSON form, ignoring managed fields. Unlike reflect.DeepEqual, it doesn't
// allocate memory for labels and annotations.
func equalMetadata(a, b *metav1.ObjectMeta) bool {
	return a.Name == b.Name && a.GenerateName == b.GenerateName && a.Namespace == b.Namespace && a.UID == b.UID &&
		a.SelfLink == b.SelfLink && //nolint:staticcheck // old API servers set it
		a.ResourceVersion == b.ResourceVersion && a.Generation == b.Generation &&
		a.CreationTimestamp.Equal(&b.CreationTimestamp) && equalTimes(a.DeletionTimestamp, b.DeletionTimestamp) &&
		reflect.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		reflect.DeepEqual(a.OwnerReferences, b.OwnerReferences) && slices.Equal(a.Finalizers, b.Finalizers)
}

func equalTimes(a, b *metav1.Time) bool { return (a == nil) == (b == nil) && a.Equal(b) }

// metadataContent returns metadata in its JSON form, without managed fields. It does the same as apimachinery's converter, which is several
// times slower because it uses reflection. known and knownContent are a different state of the metadata and its JSON form. The result
// shares equal values with knownContent, which may be nil.
func metadataContent(meta, known *metav1.ObjectMeta, knownContent map[string]any) map[string]any {
	out := make(map[string]any, reservedFields(meta))
	setText(out, knownContent, "name", meta.Name)
	setText(out, knownContent, "generateName", meta.GenerateName)
	setText(out, knownContent, "namespace", meta.Namespace)
	setText(out, knownContent, "selfLink", meta.SelfLink) //nolint:staticcheck // old API servers set it, and the JSON form must be complete
	setText(out, knownContent, "uid", string(meta.UID))
	setText(out, knownContent, "resourceVersion", meta.ResourceVersion)
	if meta.Generation != 0 {
		out["generation"] = meta.Generation
	}
	if meta.DeletionTimestamp != nil {
		out["deletionTimestamp"] = meta.DeletionTimestamp.ToUnstructured()
	}
	if meta.DeletionGracePeriodSeconds != nil {
		out["deletionGracePeriodSeconds"] = *meta.DeletionGracePeriodSeconds
	}
	share := func(key string, isEmpty, isEqual bool, convert func() any) {
		if isEmpty {
			return
		}
		if value, ok := knownContent[key]; ok && isEqual {
			out[key] = value
			return
		}
		out[key] = convert()
	}
	share("creationTimestamp", meta.CreationTimestamp.IsZero(), meta.CreationTimestamp.Equal(&known.CreationTimestamp), meta.CreationTimestamp.ToUnstructured)
	share("labels", len(meta.Labels) == 0, maps.Equal(meta.Labels, known.Labels), func() any { return textMap(meta.Labels) })
	share("annotations", len(meta.Annotations) == 0, maps.Equal(meta.Annotations, known.Annotations), func() any { return textMap(meta.Annotations) })
	share("ownerReferences", len(meta.OwnerReferences) == 0, reflect.DeepEqual(meta.OwnerReferences, known.OwnerReferences), func() any {
		return ownerReferences(meta.OwnerReferences)
	})
	share("finalizers", len(meta.Finalizers) == 0, slices.Equal(meta.Finalizers, known.Finalizers), func() any { return textList(meta.Finalizers) })
	return out
}

// reservedFields returns how many fields to reserve room for in the JSON form. Maps with up to eight fields are small.
func reservedFields(meta *metav1.ObjectMeta) int {
	n := 8
	if meta.Namespace != "" && len(meta.Labels) > 0 && len(meta.Annotations) > 0 && len(meta.Finalizers)+len(meta.OwnerReferences) > 0 {
		n = 16
	}
	return n
}

// setText sets a text unless it is empty. If known has an equal value, it is shared, because a new one would take memory.
func setText(content, known map[string]any, key, text string) {
	if value := known[key]; value == text && text != "" {
		content[key] = value
	} else if text != "" {
		content[key] = text
	}
}

func textMap(texts map[string]string) map[string]any {
	out := make(map[string]any, len(texts))
	for key, text := range texts {
		out[key] = text
	}
	return out
}

func textList(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

func ownerReferences(owners []metav1.OwnerReference) []any {
	out := make([]any, len(owners))
	for i, owner := range owners {
		content := map[string]any{"apiVersion": owner.APIVersion, "kind": owner.Kind, "name": owner.Name, "uid": string(owner.UID)}
		setBool(content, "controller", owner.Controller)
		setBool(content, "blockOwnerDeletion", owner.BlockOwnerDeletion)
		out[i] = content
	}
	return out
}

func setBool(content map[string]any, key string, value *bool) {
	if value != nil {
		content[key] = *value
	}
}
