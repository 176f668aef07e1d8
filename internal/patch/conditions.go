package patch

import (
	"maps"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// areConditions reports whether a list is one of conditions in all its states: by their types they are a map, in which several
// controllers have their own. It is called conditions, or looks like it.
func areConditions(name string, lists ...any) bool {
	looks := name == "conditions"
	for _, list := range lists {
		if list != nil && typesOf(list) == nil {
			return false
		}
		looks = looks || haveStatuses(list)
	}
	return looks
}

// haveStatuses reports whether each item has the status of a condition, and there is one.
func haveStatuses(list any) bool {
	items, _ := list.([]any)
	return len(items) > 0 && !slices.ContainsFunc(items, func(item any) bool {
		fields, _ := item.(map[string]any)
		status, _ := fields["status"].(string)
		return !slices.Contains([]string{"True", "False", "Unknown"}, status)
	})
}

// typesOf returns the types of all items; nil if not all have one, or two have the same.
func typesOf(list any) []string {
	items, ok := list.([]any)
	if !ok {
		return nil
	}
	types := make([]string, 0, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		kind, ok := fields["type"].(string)
		if !ok || slices.Contains(types, kind) {
			return nil
		}
		types = append(types, kind)
	}
	return types
}

// mergedConditions makes of a list of conditions what one change has made of another one.
func mergedConditions(was, wanted, is []any) []any {
	out := slices.Clone(is)
	for _, item := range was {
		kind := item.(map[string]any)["type"]
		if indexOf(wanted, kind) < 0 {
			out = slices.DeleteFunc(out, func(one any) bool { return one.(map[string]any)["type"] == kind })
		}
	}
	for _, item := range wanted {
		kind := item.(map[string]any)["type"]
		before, i := indexOf(was, kind), indexOf(out, kind)
		switch {
		case before >= 0 && diff.Equal(was[before], item):
		case i < 0:
			out = append(out, item)
		case before >= 0 && diff.Equal(was[before], out[i]): // nobody else has written it
			out[i] = item
		case !isDeclaration(item):
			out[i] = overtaking(out[i].(map[string]any), item.(map[string]any))
		}
	}
	return out
}

// indexOf finds the condition of a type; -1 if there is none.
func indexOf(list []any, kind any) int {
	return slices.IndexFunc(list, func(item any) bool { return item.(map[string]any)["type"] == kind })
}

// overtaking returns what one wants to say of a condition that somebody else has written meanwhile: with the same status it is no
// transition; with another one it is, and comes after theirs; and what was observed stays so.
func overtaking(is, wanted map[string]any) map[string]any {
	out := maps.Clone(wanted)
	since, _ := is["lastTransitionTime"].(string)
	mine, _ := wanted["lastTransitionTime"].(string)
	if since > mine || since != "" && is["status"] == wanted["status"] {
		out["lastTransitionTime"] = since
	}
	seen, ok := is["observedGeneration"].(int64)
	if observed, _ := wanted["observedGeneration"].(int64); ok && seen > observed {
		out["observedGeneration"] = seen
	}
	return out
}

// isDeclaration reports whether a condition says nothing but that it is there: what somebody else says is more.
func isDeclaration(item any) bool {
	fields := item.(map[string]any)
	return fields["status"] == "Unknown" && fields["reason"] == "NotReported"
}

// with returns the patch with another value at a path that it has.
func (d Document) with(path []string, value any) Document {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return Merged(d, value.(map[string]any))
}

// Without returns the patch without a field.
func (d Document) Without(path ...string) Document {
	value, ok := d[path[0]]
	if !ok {
		return d
	}
	out := maps.Clone(d)
	inner, isMap := value.(map[string]any)
	if len(path) == 1 || !isMap {
		delete(out, path[0])
		return out
	}
	rest := Document(inner).Without(path[1:]...)
	if out[path[0]] = map[string]any(rest); len(rest) == 0 {
		delete(out, path[0])
	}
	return out
}
