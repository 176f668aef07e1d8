package patch

import (
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Rebase turns a patch for the content base into one for the content other. In a list, it adds and removes the same items as before. Lists
// of conditions are merged by type.
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

// subtractItems returns a list without the items of the other list, each of which removes one equal item.
func subtractItems(list, others []any) []any { return subtractEqual(list, others, diff.Equal) }

func subtractEqual(list, others []any, equal func(a, b any) bool) []any {
	at := make(map[uint64][]any, len(others)) // by hash, because users decide how long lists are
	for _, other := range others {
		hash := hashOf(other)
		at[hash] = append(at[hash], other)
	}
	out := make([]any, 0, len(list))
	for _, item := range list {
		hash := hashOf(item)
		if i := slices.IndexFunc(at[hash], func(other any) bool { return equal(item, other) }); i >= 0 {
			at[hash] = slices.Delete(at[hash], i, i+1)
			continue
		}
		out = append(out, item)
	}
	return out
}

var hashSeed = maphash.MakeSeed() // random, so that users can't construct values with equal hashes

// hashOf returns a hash of a JSON value. Values that are equal according to [diff.Equal] have equal hashes.
func hashOf(value any) uint64 {
	const prime = 0x100000001b3
	switch v := value.(type) {
	case string:
		return maphash.String(hashSeed, v)
	case bool:
		return maphash.Comparable(hashSeed, v)
	case int64:
		return maphash.Comparable(hashSeed, v)
	case float64:
		if v == math.Trunc(v) && -1<<63 <= v && v < 1<<63 {
			return maphash.Comparable(hashSeed, int64(v)) // it may equal an integer
		}
		return maphash.Comparable(hashSeed, v)
	case []any:
		sum := uint64(len(v))
		for _, item := range v {
			sum = sum*prime + hashOf(item)
		}
		return sum
	case map[string]any:
		if v == nil {
			return 0
		}
		sum := uint64(1)
		for key, field := range v { // in any order
			if hash := hashOf(field); hash != 0 { // null fields don't count
				sum += (maphash.String(hashSeed, key) ^ prime) * (hash*2 + 1)
			}
		}
		return sum
	}
	return 0 // null, and types that don't occur in JSON forms
}

// areConditionLists reports whether all states of a field are lists of conditions. Every item must have a type that is unique in its list.
// In addition, the field must be named conditions, or all items of one state must have a condition's status.
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

// haveConditionStatuses reports whether the list is not empty, and every item has the status True, False or Unknown.
func haveConditionStatuses(list any) bool {
	items, _ := list.([]any)
	return len(items) > 0 && !slices.ContainsFunc(items, func(item any) bool {
		fields, _ := item.(map[string]any)
		status, _ := fields["status"].(string)
		return !slices.Contains([]string{"True", "False", "Unknown"}, status)
	})
}

// conditionTypes returns the types of all items. It returns nil if the value is not a list, or if an item lacks a type or two items share
// one.
func conditionTypes(list any) map[string]bool {
	items, ok := list.([]any)
	if !ok {
		return nil
	}
	types := make(map[string]bool, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		conditionType, ok := fields["type"].(string)
		if !ok || types[conditionType] {
			return nil
		}
		types[conditionType] = true
	}
	return types
}

// mergeConditions applies the change from old to wanted to the current list of conditions.
func mergeConditions(old, wanted, current []any) []any {
	had, wants := conditionTypes(old), conditionTypes(wanted)
	out := slices.DeleteFunc(slices.Clone(current), func(one any) bool {
		conditionType := typeOf(one)
		return had[conditionType] && !wants[conditionType]
	})
	at, changedByOthers := positions(out), positions(subtractItems(current, old))
	for _, item := range subtractItems(wanted, old) {
		conditionType := typeOf(item)
		i, exists := at[conditionType]
		_, changed := changedByOthers[conditionType]
		switch {
		case !exists:
			at[conditionType] = len(out)
			out = append(out, item)
		case !changed:
			out[i] = item
		case !isPlaceholder(item):
			out[i] = mergeCondition(out[i].(map[string]any), item.(map[string]any))
		}
	}
	return out
}

// typeOf returns a condition's type. conditionTypes must have accepted its list.
func typeOf(item any) string { return item.(map[string]any)["type"].(string) }

// positions returns the index of each condition by its type.
func positions(list []any) map[string]int {
	at := make(map[string]int, len(list))
	for i, item := range list {
		at[typeOf(item)] = i
	}
	return at
}

// mergeCondition returns the wanted form of a condition that another client has changed concurrently. It keeps the other client's
// transition time if that is later or the status is the same, and a higher observed generation.
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

// isPlaceholder reports whether a condition has no content yet. A placeholder must not overwrite another client's condition.
func isPlaceholder(item any) bool {
	fields := item.(map[string]any)
	return fields["status"] == "Unknown" && fields["reason"] == "NotReported"
}
