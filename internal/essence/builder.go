package essence

import (
	"errors"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// Cleaner removes the fields from an essence that it writes to objects itself. The progress store and the baseline implement it.
type Cleaner interface{ Clear(essence map[string]any) }

// Builder builds the essences of one kind.
type Builder struct {
	// Fields are additional fields whose changes handlers handle, such as status fields.
	Fields [][]string
	// Conditions are the types of conditions whose transitions handlers handle.
	Conditions []string
	// FindConditionStatuses returns the statuses of these conditions by type. By default, Build reads status.conditions.
	FindConditionStatuses func(content map[string]any) map[string]any
	// Cleaners remove what the framework writes.
	Cleaners []Cleaner
}

// Build returns the essence of an object's JSON form: all fields except apiVersion, kind, status and metadata. Of the metadata, only labels
// and annotations are kept, without the labels of sharders and without the annotations of kopf operators, this library and kubectl apply.
// Build adds the builder's fields and condition statuses.
//
// Build doesn't change the content, but the result shares nested values with it.
func (b Builder) Build(content map[string]any) map[string]any {
	out := make(map[string]any, len(content))
	for key, value := range content {
		switch key {
		case "apiVersion", "kind", "metadata", "status":
		default:
			out[key] = value
		}
	}
	if meta := buildMetadata(content); len(meta) > 0 {
		out["metadata"] = meta
	}
	for _, path := range b.Fields {
		if value, ok := diff.Lookup(content, path...); ok {
			setField(out, path, value)
		}
	}
	if statuses := b.conditionStatuses(content); len(statuses) > 0 {
		out[ConditionsKey] = statuses
	}
	b.clean(out)
	return out
}

// Keeps reports whether an essence can contain a field. It returns false if only [Builder.Fields] could add the field, or if a cleaner
// removes it.
func (b Builder) Keeps(path []string) bool { return isIn(b.Build(contentWith(path)), path) }

// Clears reports whether a cleaner removes a field.
func (b Builder) Clears(path []string) bool {
	content := contentWith(path)
	b.clean(content)
	return !isIn(content, path)
}

// contentWith returns an object's JSON form with a single field.
func contentWith(path []string) map[string]any {
	content := map[string]any{}
	setField(content, path, map[string]any{"key": "value"})
	return content
}

func isIn(content map[string]any, path []string) bool {
	_, found := diff.Lookup(content, path...)
	return found
}

// setField sets a field. It copies the maps on the path, because they may belong to the object.
func setField(content map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		inner, _ := content[key].(map[string]any)
		if inner = maps.Clone(inner); inner == nil {
			inner = map[string]any{}
		}
		content[key], content = inner, inner
	}
	content[path[len(path)-1]] = runtime.DeepCopyJSONValue(value) // cleaners change the result in place, and must not change the object
}

// ReplaceFields gives fields of an essence the values that they have in from. Fields that from doesn't have are removed. Maps below the
// first level are copied before they are changed.
func ReplaceFields(to, from map[string]any, paths [][]string) {
	for _, path := range paths {
		if value, ok := diff.Lookup(from, path...); ok {
			setField(to, path, value)
		} else {
			removeField(to, from, path)
		}
	}
}

// removeField removes a field. It also removes parent maps that become empty, unless the essence other has them.
func removeField(content, other map[string]any, path []string) {
	key := path[0]
	inner, isMap := content[key].(map[string]any)
	if len(path) == 1 {
		delete(content, key)
		return
	}
	if !isMap {
		return
	}
	inner = maps.Clone(inner)
	otherInner, inOther := other[key].(map[string]any)
	removeField(inner, otherInner, path[1:])
	if content[key] = inner; len(inner) == 0 && !inOther {
		delete(content, key)
	}
}

func (b Builder) clean(essence map[string]any) {
	for _, c := range b.Cleaners {
		c.Clear(essence)
	}
	clearRingLabels(essence)
}

// clearRingLabels removes the labels that a sharder uses to move objects between operators. It can change the metadata in place, because
// the essence doesn't share it with the object.
func clearRingLabels(essence map[string]any) {
	meta, _ := essence["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	before := len(labels)
	maps.DeleteFunc(labels, func(key string, _ any) bool { return sharding.IsRingLabel(key) })
	if len(labels) > 0 || before == 0 {
		return
	}
	if delete(meta, "labels"); len(meta) == 0 {
		delete(essence, "metadata")
	}
}

func buildMetadata(content map[string]any) map[string]any {
	original, _ := content["metadata"].(map[string]any)
	meta := map[string]any{}
	if labels, _ := original["labels"].(map[string]any); len(labels) > 0 {
		meta["labels"] = maps.Clone(labels)
	}
	all, _ := original["annotations"].(map[string]any)
	kept := make(map[string]any, len(all))
	for key, value := range all {
		if key != annotations.LastApplied && !annotations.IsManaged(key, all) {
			kept[key] = value
		}
	}
	if len(kept) > 0 {
		meta["annotations"] = kept
	}
	return meta
}

// Encode encodes an essence for storage, with sorted keys.
func Encode(essence map[string]any) ([]byte, error) { return progress.EncodeJSON(essence) }

// Decode decodes a stored essence. It applies the cleaners, because an earlier version of the library may have stored more fields. It fails
// if the text isn't a JSON object.
func (b Builder) Decode(text []byte) (map[string]any, error) {
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errors.New("the stored essence is null, want a JSON object")
	}
	b.clean(out)
	return out, nil
}
