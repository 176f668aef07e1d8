package essence

import (
	"errors"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	frameworkDomain = "kopf-runtime.dev" // of what else we note on objects, for children, say
	lastApplied     = "kubectl.kubernetes.io/last-applied-configuration"
	markerSuffix    = "/kopf-managed"
	managedDomain   = "." + progress.DefaultPrefix
)

// A Cleaner removes from an essence what it writes itself: the progress store and the baseline.
type Cleaner interface{ Clear(essence map[string]any) }

// A Shape is what the essences of one kind are made of.
type Builder struct {
	// Fields of which handlers want to know, wherever they are: in the status, too (ESS-04).
	Fields [][]string
	// Conditions are the types of those whose transitions handlers want to know.
	Conditions []string
	// Statuses finds what those conditions say in the JSON form of an object; nil: they are at status.conditions.
	FindConditionStatuses func(content map[string]any) map[string]any
	// Cleaners take out what is ours.
	Cleaners []Cleaner
}

// Build reduces the JSON form of an object to what is essential: everything but its identity, its
// system metadata, its status, and the annotations of kopf-like operators (ESS-01 to ESS-08); and the
// fields of the shape, whatever else they are.
//
// Nothing of the content is changed; below the second level the result shares its values.
func (s Builder) Build(content map[string]any) map[string]any {
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
	for _, path := range s.Fields {
		if value, ok := diff.Lookup(content, path...); ok {
			setField(out, path, value)
		}
	}
	if statuses := s.conditionStatuses(content); len(statuses) > 0 {
		out[ConditionsKey] = statuses
	}
	s.clean(out)
	return out
}

// put sets a field. The maps on the way are copied, since they may be the object's own.
func setField(content map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		inner, _ := content[key].(map[string]any)
		if inner = maps.Clone(inner); inner == nil {
			inner = map[string]any{}
		}
		content[key], content = inner, inner
	}
	content[path[len(path)-1]] = runtime.DeepCopyJSONValue(value) // ours may be taken out of it
}

// CopyFields sets fields of an essence to what they are in another one; those that the other one lacks are removed.
// Maps below the first level are copied and not changed.
func CopyFields(to, from map[string]any, paths [][]string) {
	for _, path := range paths {
		if value, ok := diff.Lookup(from, path...); ok {
			setField(to, path, value)
		} else {
			removeField(to, from, path)
		}
	}
}

// remove removes a field, and the maps around it that are empty then, unless the other essence has them.
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
	there, kept := other[key].(map[string]any)
	removeField(inner, there, path[1:])
	if content[key] = inner; len(inner) == 0 && !kept {
		delete(content, key)
	}
}

func (s Builder) clean(essence map[string]any) {
	for _, c := range s.Cleaners {
		c.Clear(essence)
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
		if key != lastApplied && !isManaged(key, all) {
			kept[key] = value
		}
	}
	if len(kept) > 0 {
		meta["annotations"] = kept
	}
	return meta
}

// isManaged recognises the annotations of kopf-like operators, ours or others': by their prefix, or
// by the marker that stands beside them (KEY-22).
func isManaged(key string, all map[string]any) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	if prefix == progress.DefaultPrefix || prefix == frameworkDomain || strings.HasSuffix(prefix, managedDomain) {
		return true
	}
	_, marked := all[prefix+markerSuffix]
	return marked
}

// Encode writes an essence as the text that is stored.
func Encode(essence map[string]any) ([]byte, error) { return progress.EncodeJSON(essence) }

// Decode reads a stored text. What an earlier version stored and would not store today is cleaned
// off, so that both sides of a comparison are of one shape (ESS-08).
func (s Builder) Decode(text []byte) (map[string]any, error) {
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errors.New("it is null, not an object")
	}
	s.clean(out)
	return out, nil
}
