package patch

import (
	"maps"
	"reflect"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A Document is a JSON merge patch (RFC 7386): nulls remove, maps recurse, all else replaces.
type Document map[string]any

// Between returns the patch that makes one JSON form of an object into the other.
func Between(before, after map[string]any) Document {
	doc := Document{}
	for key, value := range after {
		old, had := before[key]
		if had && diff.Equal(old, value) {
			continue
		}
		oldMap, wasMap := old.(map[string]any)
		newMap, isMap := value.(map[string]any)
		switch {
		case wasMap && isMap:
			if inner := Between(oldMap, newMap); len(inner) > 0 {
				doc[key] = map[string]any(inner)
			}
		case value != nil || had:
			doc[key] = value
		}
	}
	for key := range before {
		if _, kept := after[key]; !kept {
			doc[key] = nil
		}
	}
	return doc
}

// OfAnnotations returns the patch that makes one set of annotations into the other.
func OfAnnotations(before, after map[string]string) Document {
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
		return Document{}
	}
	return Document{"metadata": map[string]any{"annotations": changed}}
}

// Apply returns the content with the patch applied. Neither is changed, the result shares their values.
func (d Document) Apply(content map[string]any) map[string]any {
	out := maps.Clone(content)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range d {
		switch v := value.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			inner, _ := out[key].(map[string]any)
			out[key] = Document(v).Apply(inner)
		default:
			out[key] = value
		}
	}
	return out
}

// Observed returns the patch with the values that stand at its places in the content: what the
// server has made of it, or what would undo it.
func (d Document) Observed(content map[string]any) Document {
	out := Document{}
	for key, value := range d {
		is := content[key]
		there, wasMap := is.(map[string]any)
		if inner, isMap := value.(map[string]any); isMap && (wasMap || is == nil) {
			out[key] = map[string]any(Document(inner).Observed(there))
			continue
		}
		out[key] = is
	}
	return out
}

// Missing returns the part of the patch that the JSON form of an object does not have already.
func (d Document) Missing(content map[string]any) Document {
	out := Document{}
	for key, value := range d {
		old, had := content[key]
		oldMap, wasMap := old.(map[string]any)
		newMap, isMap := value.(map[string]any)
		switch {
		case wasMap && isMap:
			if inner := Document(newMap).Missing(oldMap); len(inner) > 0 {
				out[key] = map[string]any(inner)
			}
		case value == nil && !had, had && value != nil && diff.Equal(old, value):
		default:
			out[key] = value
		}
	}
	return out
}

// Merged joins patches of different origin; where they meet, the later one counts.
func Merged(docs ...Document) Document {
	out := Document{}
	for _, doc := range docs {
		mergeInto(out, doc)
	}
	return out
}

func mergeInto(target, doc map[string]any) {
	for key, value := range doc {
		inner, isMap := value.(map[string]any)
		if !isMap {
			target[key] = value
			continue
		}
		if existing, ok := target[key].(map[string]any); ok {
			copied := maps.Clone(existing)
			mergeInto(copied, inner)
			target[key] = copied
			continue
		}
		copied := map[string]any{}
		mergeInto(copied, inner)
		target[key] = copied
	}
}

// Essential drops what belongs to the server, so that a handler which has updated the object with
// its own client does not seem to have changed it.
func (d Document) Essential() Document {
	out := maps.Clone(d)
	delete(out, "apiVersion")
	delete(out, "kind")
	meta, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	meta = maps.Clone(meta)
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

// SupersededBy returns the part of the patch that remains when a later patch has been written first: without the fields
// that the later one sets or removes, whole lists included. A map that this patch removes and the later one fills again
// becomes the removal of each other field that the content has in it.
func (d Document) SupersededBy(later Document, content map[string]any) Document {
	out := Document{}
	for key, value := range d {
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
		if rest := Document(inner).SupersededBy(newerMap, stored); len(rest) > 0 {
			out[key] = map[string]any(rest)
		}
	}
	return out
}

// splitStatus takes the status out of a patch.
func (d Document) splitStatus() (rest, status Document) {
	value, ok := d["status"]
	if !ok {
		return d, nil
	}
	rest = maps.Clone(d)
	delete(rest, "status")
	return rest, Document{"status": value}
}

// lists returns the paths at which the patch replaces whole lists: what somebody else has put into
// them meanwhile would be lost, so such a patch has to be sent with the version it was made for.
func (d Document) lists(original map[string]any) [][]string {
	var paths [][]string
	var walk func(doc map[string]any, path []string)
	walk = func(doc map[string]any, path []string) {
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			at := append(slices.Clone(path), key)
			if inner, ok := doc[key].(map[string]any); ok {
				walk(inner, at)
				continue
			}
			old, _ := diff.Lookup(original, at...)
			if isList(doc[key]) || isList(old) {
				paths = append(paths, at)
			}
		}
	}
	walk(d, nil)
	return paths
}

// changedByOthers returns the fields of the patch that have neither the value from before the patch, nor the one that the
// patch gives them. Lists are left out: they are guarded by the version.
func (d Document) changedByOthers(before, content map[string]any) Document {
	out := Document{}
	for key, value := range d {
		was, is := before[key], content[key]
		inner, isMap := value.(map[string]any)
		wasFields, wasMap := asMap(was)
		isFields, isStillMap := asMap(is)
		switch {
		case isMap && wasMap && isStillMap:
			if fields := Document(inner).changedByOthers(wasFields, isFields); len(fields) > 0 {
				out[key] = map[string]any(fields)
			}
		case isList(value), isList(was), diff.Equal(was, is), diff.Equal(value, is):
		default:
			out[key] = nil
		}
	}
	return out
}

// Paths returns the fields that the patch sets or removes, sorted, as paths with dots.
func (d Document) Paths() []string {
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(d)) {
		inner, isMap := d[key].(map[string]any)
		if !isMap {
			paths = append(paths, key)
		}
		for _, path := range Document(inner).Paths() {
			paths = append(paths, key+"."+path)
		}
	}
	return paths
}

// asMap returns a value that is a map, or an empty map for no value; ok is false for all others.
func asMap(value any) (fields map[string]any, ok bool) {
	fields, ok = value.(map[string]any)
	return fields, ok || value == nil
}

func isList(value any) bool {
	return value != nil && reflect.TypeOf(value).Kind() == reflect.Slice
}

// Onto fits a patch that was made for one content to another one. A merge patch replaces lists as a whole;
// here only what it has added to them, and taken from them, is carried over.
func (d Document) Onto(base, other map[string]any) Document {
	out := Document{}
	for key, value := range d {
		switch v := value.(type) {
		case map[string]any:
			was, _ := base[key].(map[string]any)
			is, _ := other[key].(map[string]any)
			out[key] = map[string]any(Document(v).Onto(was, is))
		case []any:
			was, _ := base[key].([]any)
			is, _ := other[key].([]any)
			if typesOf(was) != nil && typesOf(is) != nil && areConditions(key, was, v, is) {
				out[key] = mergedConditions(was, v, is)
			} else {
				out[key] = carried(was, v, is)
			}
		default:
			out[key] = value
		}
	}
	return out
}

// carried makes of a list what one change has made of another list.
func carried(was, wanted, is []any) []any {
	if diff.Equal(was, is) {
		return wanted
	}
	removed, added := without(was, wanted), without(wanted, was)
	added = without(added, without(is, was)) // it may be there already
	return append(without(is, removed), added...)
}

// without returns the items of a list that are not in another one; each of those takes away one.
func without(list, others []any) []any {
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
