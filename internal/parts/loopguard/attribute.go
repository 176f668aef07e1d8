package loopguard

import (
	"maps"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Change is a changed field and the handlers that wrote its value.
type Change struct {
	Field    diff.Path
	Handlers []string // sorted
}

// Attribute returns the changed fields whose values were written by handlers, and which handlers these are. own is true if handlers wrote
// all changed fields.
func Attribute(changes diff.Diff, writes []Write) (fields []Change, own bool) {
	own = len(changes) > 0
	for _, item := range changes {
		for _, leaf := range leaves(item.Path, item.New) {
			change := Change{Field: leaf.path}
			for _, write := range writes {
				if sets(write.Fields, leaf.path, leaf.value) && !slices.Contains(change.Handlers, write.Handler) {
					change.Handlers = append(change.Handlers, write.Handler)
				}
			}
			if len(change.Handlers) == 0 {
				own = false
				continue
			}
			slices.Sort(change.Handlers)
			fields = append(fields, change)
		}
	}
	return fields, own
}

// leaf is a field whose value is not a map with fields. A new map is split into its leaves because several handlers may have written to it.
type leaf struct {
	path  diff.Path
	value any
}

func leaves(path diff.Path, value any) []leaf {
	inner, isMap := value.(map[string]any)
	if !isMap || len(inner) == 0 {
		return []leaf{{path, value}}
	}
	var all []leaf
	for _, key := range slices.Sorted(maps.Keys(inner)) {
		all = append(all, leaves(append(slices.Clone(path), key), inner[key])...)
	}
	return all
}

// sets reports whether a merge patch sets a field to a value, or removes it if the value is nil.
func sets(doc map[string]any, path diff.Path, value any) bool {
	for i, name := range path {
		next, found := doc[name]
		if !found {
			return false
		}
		if i == len(path)-1 {
			return next == nil && value == nil || next != nil && diff.Equal(next, value)
		}
		inner, isMap := next.(map[string]any)
		if !isMap {
			return next == nil && value == nil // the patch removes the map that contained the field
		}
		doc = inner
	}
	return false
}
