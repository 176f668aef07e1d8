package patch

import (
	"maps"
	"reflect"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// MergePatch is a JSON merge patch (RFC 7386): nil removes a field, maps are merged, and any other value replaces the existing one. In
// addition, [Null] sets a field to null.
type MergePatch map[string]any

// Diff returns the patch that turns before into after. Both are JSON forms of an object.
func Diff(before, after map[string]any) MergePatch {
	if doc := differences(before, after); doc != nil {
		return doc
	}
	return MergePatch{}
}

// differences is [Diff], but returns nil if nothing differs.
func differences(before, after map[string]any) (doc MergePatch) {
	if reflect.ValueOf(before).Pointer() == reflect.ValueOf(after).Pointer() {
		return nil // JSON forms of one object share fields that have not changed
	}
	set := func(key string, value any) {
		if doc == nil {
			doc = MergePatch{}
		}
		doc[key] = value
	}
	for key, value := range after {
		old, had := before[key]
		oldMap, wasMap := old.(map[string]any)
		newMap, isMap := value.(map[string]any)
		switch {
		case wasMap && isMap:
			if inner := differences(oldMap, newMap); inner != nil {
				set(key, map[string]any(inner))
			}
		case had && equalWithNulls(old, value):
		default:
			set(key, withNulls(value))
		}
	}
	for key := range before {
		if _, found := after[key]; !found {
			set(key, nil)
		}
	}
	return doc
}

// DiffAnnotations returns the patch that changes the annotations from before to after.
func DiffAnnotations(before, after map[string]string) MergePatch {
	changed := map[string]any{}
	for key, value := range after {
		if old, had := before[key]; !had || old != value {
			changed[key] = value
		}
	}
	for key := range before {
		if _, kept := after[key]; !kept {
			changed[key] = nil
		}
	}
	if len(changed) == 0 {
		return MergePatch{}
	}
	return MergePatch{"metadata": map[string]any{"annotations": changed}}
}

// At returns a patch that sets the field at a path. With an empty path, the value itself is the patch and must be a map.
func At(path []string, value any) MergePatch {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value.(map[string]any)
}

// Apply returns a copy of the content with the patch applied. It shares values with both.
func (p MergePatch) Apply(content map[string]any) map[string]any {
	out := maps.Clone(content)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range p {
		switch v := value.(type) {
		case nil:
			delete(out, key)
		case null:
			out[key] = nil
		case map[string]any:
			inner, _ := out[key].(map[string]any)
			out[key] = MergePatch(v).Apply(inner)
		default:
			out[key] = value
		}
	}
	return out
}

// CurrentValues returns a patch that sets the same fields to the values they have in the content.
func (p MergePatch) CurrentValues(content map[string]any) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		current, had := content[key]
		currentMap, wasMap := current.(map[string]any)
		inner, isMap := value.(map[string]any)
		switch {
		case isMap && (wasMap || current == nil):
			out[key] = map[string]any(MergePatch(inner).CurrentValues(currentMap))
		case had:
			out[key] = withNulls(current)
		default:
			out[key] = nil
		}
	}
	return out
}

// Unapplied returns the part of the patch that would change the content.
func (p MergePatch) Unapplied(content map[string]any) MergePatch {
	after := p.Apply(content)
	return Diff(content, after)
}

// Merge merges patches into a new patch. If several of them set the same field, the last one wins. The result shares maps with the patches,
// so only its top level may be changed.
func Merge(docs ...MergePatch) MergePatch {
	out := MergePatch{}
	for _, doc := range docs {
		mergeInto(out, doc)
	}
	return out
}

// mergeInto merges a patch into the top-level map of a different patch. It copies nested maps before it changes them.
func mergeInto(target, doc map[string]any) {
	for key, value := range doc {
		inner, isMap := value.(map[string]any)
		existing, wasMap := target[key].(map[string]any)
		if isMap && wasMap {
			merged := maps.Clone(existing)
			mergeInto(merged, inner)
			value = merged
		}
		target[key] = value
	}
}

// WithoutServerFields returns the patch without the fields that the API server maintains. If a handler updates the object with its own
// client, these fields differ even though the handler hasn't changed them.
func (p MergePatch) WithoutServerFields() MergePatch {
	fields, hasMeta := p["metadata"].(map[string]any)
	_, hasVersion := p["apiVersion"]
	if _, hasKind := p["kind"]; !hasVersion && !hasKind && !hasMeta {
		return p
	}
	out := maps.Clone(p)
	delete(out, "apiVersion")
	delete(out, "kind")
	if !hasMeta {
		return out
	}
	meta := maps.Clone(fields)
	for _, field := range []string{
		"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink",
		"managedFields", "deletionTimestamp", "deletionGracePeriodSeconds",
	} {
		delete(meta, field)
	}
	out["metadata"] = meta
	if len(meta) == 0 {
		delete(out, "metadata")
	}
	return out
}

// WithoutOverwritten returns the patch without the fields that a later patch sets or removes, so that it can still be written after that
// patch. A list counts as one field. If this patch removes a map in which the later one sets fields, the result removes the map's other
// fields.
func (p MergePatch) WithoutOverwritten(later MergePatch, content map[string]any) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		newer, replaced := later[key]
		if !replaced {
			out[key] = value
			continue
		}
		inner, isMap := value.(map[string]any)
		newerMap, newerIsMap := newer.(map[string]any)
		stored, _ := content[key].(map[string]any)
		if value == nil && newerIsMap {
			inner, isMap = map[string]any{}, true
			for field := range stored {
				inner[field] = nil
			}
		}
		if !isMap || !newerIsMap {
			continue
		}
		if rest := MergePatch(inner).WithoutOverwritten(newerMap, stored); len(rest) > 0 {
			out[key] = map[string]any(rest)
		}
	}
	return out
}

// splitStatus splits a patch into the status and the other fields.
func (p MergePatch) splitStatus() (rest, status MergePatch) {
	value, ok := p["status"]
	if !ok {
		return p, nil
	}
	rest = maps.Clone(p)
	delete(rest, "status")
	return rest, MergePatch{"status": value}
}

// listPaths returns the paths of the lists that the patch replaces or removes. Without the resource version they are based on, the patch
// would overwrite items that another client has added.
func (p MergePatch) listPaths(original map[string]any) [][]string {
	var paths [][]string
	var walk func(doc map[string]any, path []string)
	walk = func(doc map[string]any, path []string) {
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			itemPath := append(slices.Clone(path), key)
			if inner, ok := doc[key].(map[string]any); ok {
				walk(inner, itemPath)
				continue
			}
			old, _ := diff.Lookup(original, itemPath...)
			if isList(doc[key]) || isList(old) {
				paths = append(paths, itemPath)
			}
		}
	}
	walk(p, nil)
	return paths
}

// changedConcurrently returns those fields of the patch that have neither their value from before nor the patch's value. It ignores lists,
// because the resource version protects them.
func (p MergePatch) changedConcurrently(before, content map[string]any) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		old, current := before[key], content[key]
		inner, isMap := value.(map[string]any)
		wasFields, wasMap := asMap(old)
		isFields, isStillMap := asMap(current)
		switch {
		case isMap && wasMap && isStillMap:
			if fields := MergePatch(inner).changedConcurrently(wasFields, isFields); len(fields) > 0 {
				out[key] = map[string]any(fields)
			}
		case isList(value), isList(old), diff.Equal(old, current), diff.Equal(valueOf(value), current):
		default:
			out[key] = nil
		}
	}
	return out
}

// Paths returns the sorted, dotted paths of the fields that the patch sets or removes.
func (p MergePatch) Paths() []string {
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(p)) {
		inner, isMap := p[key].(map[string]any)
		if !isMap {
			paths = append(paths, key)
		}
		for _, path := range MergePatch(inner).Paths() {
			paths = append(paths, key+"."+path)
		}
	}
	return paths
}

// asMap returns the value as a map. ok is true for a map or nil.
func asMap(value any) (fields map[string]any, ok bool) {
	fields, ok = value.(map[string]any)
	return fields, ok || value == nil
}

func isList(value any) bool {
	return value != nil && reflect.TypeOf(value).Kind() == reflect.Slice
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
