package explore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A QuietState is the state of the cluster and of external systems once the operator is quiet.
type QuietState struct {
	// State contains the objects: see [NormalizeState].
	State map[string]any
	// External is the external state for messages. ExternalDump is the same with dereferenced pointers, for comparisons.
	External, ExternalDump string
}

// NormalizeState returns lists of objects by kind, namespace and name, without Events and Leases. Objects with the same generateName share
// a list. Fields that differ in each run, the operator's stored data, and the ignored fields are removed.
func NormalizeState(objects []map[string]any, ignore []string) map[string]any {
	out := map[string]any{}
	for _, content := range objects {
		kind, _ := content["kind"].(string)
		version, _ := content["apiVersion"].(string)
		if IsEventOrLease(version, kind) {
			continue
		}
		content = runtime.DeepCopyJSON(content)
		meta, _ := content["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		if prefix, ok := meta["generateName"].(string); ok {
			delete(meta, "name")
			name = prefix + "*"
		}
		if namespace, ok := meta["namespace"].(string); ok {
			name = namespace + "/" + name
		}
		name = kind + " " + name
		for _, path := range append(slices.Clone(ignore), "status.kopf") {
			removePath(content, SplitFieldPath(path))
		}
		if status, ok := content["status"].(map[string]any); ok && len(status) == 0 {
			delete(content, "status") // a merge patch that removes the last field leaves an empty object
		}
		removeConditionTimes(content)
		describeObserved(content["status"], generationOf(content))
		removeServerFields(meta)
		list, _ := out[name].([]any)
		out[name] = append(list, content)
	}
	for _, list := range out { // the order of generated names is random
		slices.SortStableFunc(list.([]any), func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return out
}

// IsEventOrLease reports whether a kind is Kubernetes' own Event or Lease. Other groups may have kinds with the same names.
func IsEventOrLease(apiVersion, kind string) bool {
	switch group, _, _ := strings.Cut(apiVersion, "/"); kind {
	case "Event":
		return apiVersion == "v1" || group == "events.k8s.io"
	case "Lease":
		return group == "coordination.k8s.io"
	default:
		return false
	}
}

// removeServerFields removes the fields that the server generates and the operator's annotations.
func removeServerFields(meta map[string]any) {
	for _, field := range []string{
		"resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "deletionGracePeriodSeconds",
	} {
		delete(meta, field)
	}
	if _, ok := meta["deletionTimestamp"]; ok {
		meta["deletionTimestamp"] = "some time" // only whether there is a timestamp matters
	}
	if all, ok := meta["annotations"].(map[string]any); ok {
		kept := maps.Clone(all)
		maps.DeleteFunc(kept, func(key string, _ any) bool { return annotations.IsManaged(key, all) })
		if meta["annotations"] = kept; len(kept) == 0 {
			delete(meta, "annotations")
		}
	}
	owners, _ := meta["ownerReferences"].([]any)
	for _, owner := range owners {
		if reference, ok := owner.(map[string]any); ok {
			delete(reference, "uid")
		}
	}
}

// removeConditionTimes removes lastTransitionTime from conditions, because a fault can change it.
func removeConditionTimes(content map[string]any) {
	status, _ := content["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok {
			delete(condition, "lastTransitionTime")
		}
	}
}

// observedGeneration is the name of the fields that say which generation of the object a status describes.
const observedGeneration = "observedGeneration"

// The values of observedGeneration in normalized states. A fault can change the numbers. But if a status describes the present generation
// without faults, it must also do so with them.
const (
	presentGeneration = "present"
	olderGeneration   = "older"
	newerGeneration   = "newer than the object"
)

func generationOf(content map[string]any) int64 {
	meta, _ := content["metadata"].(map[string]any)
	generation, _ := meta["generation"].(int64)
	return generation
}

// describeObserved replaces each observed generation in a status with its relation to the object's generation.
func describeObserved(value any, generation int64) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			describeObserved(item, generation)
		}
	case map[string]any:
		for key, inner := range v {
			describeObserved(inner, generation)
			number, ok := inner.(int64)
			switch {
			case !ok || key != observedGeneration || generation == 0:
			case number == generation:
				v[key] = presentGeneration
			case number < generation:
				v[key] = olderGeneration
			default:
				v[key] = newerGeneration
			}
		}
	}
}

// tolerateNewer returns the found value, but makes an observed generation older where the expected one is older. The difference is fine,
// because a handler that was called again may have seen a newer generation.
func tolerateNewer(expected, found any) any {
	switch e := expected.(type) {
	case []any:
		f, ok := found.([]any)
		if !ok || len(e) != len(f) {
			return found
		}
		out := make([]any, len(f))
		for i := range f {
			out[i] = tolerateNewer(e[i], f[i])
		}
		return out
	case map[string]any:
		f, ok := found.(map[string]any)
		if !ok {
			return found
		}
		out := maps.Clone(f)
		for key, value := range f {
			if out[key] = tolerateNewer(e[key], value); key == observedGeneration && e[key] == olderGeneration && value == presentGeneration {
				out[key] = olderGeneration
			}
		}
		return out
	}
	return found
}

// SplitFieldPath splits a dotted path, as kopf.Field does. A dot after a backslash belongs to the key.
func SplitFieldPath(path string) []string {
	const dot = "\x00"
	keys := strings.Split(strings.ReplaceAll(path, `\.`, dot), ".")
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(key, dot, ".")
	}
	return keys
}

func removePath(content map[string]any, path []string) {
	for _, key := range path[:len(path)-1] {
		inner, ok := content[key].(map[string]any)
		if !ok {
			return
		}
		content = inner
	}
	delete(content, path[len(path)-1])
}

// compareQuietStates returns the first difference and its kind. Differences of one kind can occur after several steps, with different
// values. Both results are empty if there is no difference.
func compareQuietStates(first, second []QuietState) (kind, text string) {
	for i, expected := range first {
		if i == len(second) {
			return "not finished", "the scenario ended early"
		}
		kind, differs := expected.Compare(second[i])
		if differs != "" && i > 0 {
			return kind, fmt.Sprintf("after step %d of the scenario, %s", i, differs)
		}
		if differs != "" {
			return kind, "before the first step, " + differs
		}
	}
	return "", ""
}

// Compare returns the first difference between two states, and its kind. Both results are empty if there is no difference.
func (s QuietState) Compare(other QuietState) (kind, text string) {
	state, counterpart := matchRandomNames(s.State, other.State)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		expected, _ := state[name].([]any)
		found, ok := counterpart[name].([]any)
		switch {
		case !ok:
			return "missing " + kindOf(name), name + " is missing" + describeSimilar(expected, name, state, counterpart)
		case len(expected) != len(found):
			return "number of " + name, fmt.Sprintf("expected %d objects %s, found %d", len(expected), name, len(found))
		}
		for i := range expected {
			if d := diff.Of(expected[i], tolerateNewer(expected[i], found[i])); !d.Empty() {
				paths := make([]string, len(d))
				for i, item := range d {
					paths[i] = item.Path.String()
				}
				return fmt.Sprintf("differs %s %v", kindOf(name), paths), fmt.Sprintf("%s differs: %v", name, d)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counterpart)) {
		if _, ok := state[name]; !ok {
			return "unexpected " + kindOf(name), "unexpected object " + name
		}
	}
	if s.ExternalDump != other.ExternalDump {
		return "external state", fmt.Sprintf("the external state is %s, expected %s", other.External, s.External)
	}
	return "", ""
}

// describeSimilar describes how a missing object differs from the most similar object that only the other state has: the one of the same
// kind and namespace with the fewest differences. It returns an empty string if there is none.
func describeSimilar(objects []any, name string, state, counterpart map[string]any) string {
	similar, differences := "", diff.Diff(nil)
	for _, candidate := range slices.Sorted(maps.Keys(counterpart)) {
		if _, ok := state[candidate]; ok || kindOf(candidate) != kindOf(name) {
			continue
		}
		others, _ := counterpart[candidate].([]any)
		if len(others) == 0 || len(objects) == 0 {
			continue
		}
		d := diff.Of(withoutName(objects[:1])[0], withoutName(others[:1])[0])
		if similar == "" || len(d) < len(differences) {
			similar, differences = candidate, d
		}
	}
	if similar == "" {
		return ""
	}
	return fmt.Sprintf("; the similar %s differs: %v", similar, differences)
}

// kindOf returns the kind and the namespace of a name in a state, such as "Secret default" for "Secret default/orders".
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// matchRandomNames renames objects in the second state that differ from an object in the first state only in their names, because handlers
// may give children random names. It only considers objects that exist in just one of the states. References to renamed objects are
// renamed, too.
func matchRandomNames(expected, found map[string]any) (map[string]any, map[string]any) {
	renamed := map[string]string{} // names in the first state, by name in the second state
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if _, ok := found[name]; ok {
			continue
		}
		for _, candidate := range slices.Sorted(maps.Keys(found)) {
			_, known := expected[candidate]
			if !known && renamed[candidate] == "" && kindOf(candidate) == kindOf(name) &&
				diff.Equal(any(withoutName(listOf(expected[name]))), any(withoutName(listOf(found[candidate])))) {
				renamed[candidate] = name
				break
			}
		}
	}
	if len(renamed) == 0 {
		return expected, found
	}
	short := map[string]string{}
	for from, to := range renamed {
		short[from[strings.LastIndex(from, "/")+1:]] = to[strings.LastIndex(to, "/")+1:]
	}
	out := map[string]any{}
	for name, objects := range found {
		out[cmp.Or(renamed[name], name)] = replaceNames(objects, short)
	}
	return expected, out
}

func listOf(objects any) []any {
	list, _ := objects.([]any)
	return list
}

func withoutName(list []any) []any {
	out := make([]any, len(list))
	for i, item := range list {
		content := runtime.DeepCopyJSON(item.(map[string]any))
		removePath(content, []string{"metadata", "name"})
		out[i] = content
	}
	return out
}

// replaceNames copies a value, and replaces each string that is a key of names with that key's value.
func replaceNames(value any, names map[string]string) any {
	switch v := value.(type) {
	case string:
		return cmp.Or(names[v], v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = replaceNames(inner, names)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = replaceNames(inner, names)
		}
		return out
	default:
		return value
	}
}
