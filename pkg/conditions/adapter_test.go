package conditions_test

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// flags is an adapter for objects with custom condition fields: status.flags.<type> = {state, why, text, since}.
func flags(obj client.Object) (conditions.Fields, error) {
	return flagsAdapter{obj.(*unstructured.Unstructured)}, nil
}

type flagsAdapter struct{ *unstructured.Unstructured }

func (f flagsAdapter) flags() map[string]any {
	flags, _, _ := unstructured.NestedMap(f.Object, "status", "flags")
	return flags
}

func (f flagsAdapter) List() (list []metav1.Condition) {
	flags := f.flags()
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		flag := flags[name].(map[string]any)
		c := metav1.Condition{
			Type: name, Status: metav1.ConditionStatus(flag["state"].(string)),
			Reason: flag["why"].(string), Message: flag["text"].(string),
		}
		_ = c.LastTransitionTime.UnmarshalQueryParameter(flag["since"].(string))
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC())
		list = append(list, c)
	}
	return list
}

func (f flagsAdapter) Put(c metav1.Condition) {
	since, _ := c.LastTransitionTime.MarshalQueryParameter()
	_ = unstructured.SetNestedMap(f.Object, map[string]any{
		"state": string(c.Status), "why": c.Reason, "text": c.Message, "since": since,
	}, "status", "flags", c.Type)
}

func (f flagsAdapter) Remove(conditionType string) {
	unstructured.RemoveNestedField(f.Object, "status", "flags", conditionType)
}
