package patch

import (
	"maps"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Rebase converts a patch for the content base to a patch for the content other. For a list, the result adds and
// removes the same items as the patch. Lists of conditions are merged by type.
func (p MergePatch) Rebase(base, other map[string]any) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		switch v := value.(type) {
		case map[string]any:
			old, _ := base[key].(map[string]any)
			current, _ := other[key].(map[string]any)
			out[key] = map[string]any(MergePatch(v).Rebase(old, current))
		case []any:
			old, _ := base[key].([]any)
			current, _ := other[key].([]any)
			if conditionTypes(old) != nil && conditionTypes(current) != nil && areConditionLists(key, old, v, current) {
				out[key] = mergeConditions(old, v, current)
			} else {
				out[key] = rebaseList(old, v, current)
			}
		default:
			out[key] = value
		}
	}
	return out
}

// rebaseList applies the change from old to wanted to the current list.
func rebaseList(old, wanted, current []any) []any {
	if slices.EqualFunc(old, current, diff.Equal) {
		return wanted
	}
	removed, added := subtractItems(old, wanted), subtractItems(wanted, old)
	added = subtractItems(added, subtractItems(current, old)) // another client may have added the same items
	return append(subtractItems(current, removed), added...)
}

// subtractItems returns the items of a list without the items of another list. Each item of the other list removes one equal item.
func subtractItems(list, others []any) []any {
	others = slices.Clone(others)
	out := make([]any, 0, len(list))
	for _, item := range list {
		if i := slices.IndexFunc(others, func(other any) bool { return diff.Equal(item, other) }); i >= 0 {
			others = slices.Delete(others, i, i+1)
			continue
		}
		out = append(out, item)
	}
	return out
}

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
	changedByOthers := subtractItems(current, old)
	for _, item := range subtractItems(wanted, old) {
		conditionType := item.(map[string]any)["type"]
		i := indexOf(out, conditionType)
		switch {
		case i < 0:
			out = append(out, item)
		case indexOf(changedByOthers, conditionType) < 0:
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
