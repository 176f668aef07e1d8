package patch

import (
	"maps"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// areConditionLists reports whether all states of a field are lists of conditions. Each item must have a unique type.
// In addition, the field must be named conditions, or all items of one state must have the status of a condition.
func areConditionLists(name string, lists ...any) bool {
	found := name == "conditions"
	for _, list := range lists {
		if list != nil && conditionTypes(list) == nil {
			return false
		}
		found = found || haveConditionStatuses(list)
	}
	return found
}

// haveConditionStatuses reports whether the list has items, and each item has the status True, False or Unknown.
func haveConditionStatuses(list any) bool {
	items, _ := list.([]any)
	return len(items) > 0 && !slices.ContainsFunc(items, func(item any) bool {
		fields, _ := item.(map[string]any)
		status, _ := fields["status"].(string)
		return !slices.Contains([]string{"True", "False", "Unknown"}, status)
	})
}

// conditionTypes returns the types of all items. It returns nil if the value is not a list, an item has no type, or two items have the same type.
func conditionTypes(list any) []string {
	items, ok := list.([]any)
	if !ok {
		return nil
	}
	types := make([]string, 0, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		conditionType, ok := fields["type"].(string)
		if !ok || slices.Contains(types, conditionType) {
			return nil
		}
		types = append(types, conditionType)
	}
	return types
}

// mergeConditions applies the change from old to wanted to the current list of conditions.
func mergeConditions(old, wanted, current []any) []any {
	out := slices.Clone(current)
	for _, item := range old {
		conditionType := item.(map[string]any)["type"]
		if indexOf(wanted, conditionType) < 0 {
			out = slices.DeleteFunc(out, func(one any) bool { return one.(map[string]any)["type"] == conditionType })
		}
	}
	for _, item := range wanted {
		conditionType := item.(map[string]any)["type"]
		before, i := indexOf(old, conditionType), indexOf(out, conditionType)
		switch {
		case before >= 0 && diff.Equal(old[before], item):
		case i < 0:
			out = append(out, item)
		case before >= 0 && diff.Equal(old[before], out[i]): // no other client has changed the condition
			out[i] = item
		case !isPlaceholder(item):
			out[i] = mergeCondition(out[i].(map[string]any), item.(map[string]any))
		}
	}
	return out
}

// indexOf returns the index of the condition with a type; -1 if there is none.
func indexOf(list []any, conditionType any) int {
	return slices.IndexFunc(list, func(item any) bool { return item.(map[string]any)["type"] == conditionType })
}

// mergeCondition returns the wanted form of a condition that another client has changed concurrently. It keeps the transition time of the other
// client if that is later or if both have the same status. It keeps a higher observed generation.
func mergeCondition(current, wanted map[string]any) map[string]any {
	out := maps.Clone(wanted)
	since, _ := current["lastTransitionTime"].(string)
	wantedSince, _ := wanted["lastTransitionTime"].(string)
	if since > wantedSince || since != "" && current["status"] == wanted["status"] {
		out["lastTransitionTime"] = since
	}
	seen, ok := current["observedGeneration"].(int64)
	if observed, _ := wanted["observedGeneration"].(int64); ok && seen > observed {
		out["observedGeneration"] = seen
	}
	return out
}

// isPlaceholder reports whether a condition has no content yet. A placeholder must not overwrite the condition of another client.
func isPlaceholder(item any) bool {
	fields := item.(map[string]any)
	return fields["status"] == "Unknown" && fields["reason"] == "NotReported"
}

// withValue returns the patch with another value at a path.
func (p MergePatch) withValue(path []string, value any) MergePatch {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return Merge(p, value.(map[string]any))
}

// WithoutField returns the patch without the field at a path.
func (p MergePatch) WithoutField(path ...string) MergePatch {
	value, ok := p[path[0]]
	if !ok {
		return p
	}
	out := maps.Clone(p)
	inner, isMap := value.(map[string]any)
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	if !isMap {
		return p // the patch removes or replaces the parent of the field
	}
	rest := MergePatch(inner).WithoutField(path[1:]...)
	if out[path[0]] = map[string]any(rest); len(rest) == 0 {
		delete(out, path[0])
	}
	return out
}
