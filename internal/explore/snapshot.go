package explore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Snapshot is the state at rest.
type Snapshot struct {
	// State is that of the objects: see [NormalizeState].
	State map[string]any
	// Outside is the state outside of the cluster, for people; Dump is the same with pointers followed.
	External, ExternalDump string
}

// NormalizeState is what counts of the objects of a server, by their names: without what is different each time, and without the operator's
// own notes.
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
		removeServerFields(meta)
		for _, path := range append(slices.Clone(ignore), "status.kopf") {
			removePath(content, SplitPath(path))
		}
		if status, ok := content["status"].(map[string]any); ok && len(status) == 0 {
			delete(content, "status") // a merge patch that removes the last field leaves an empty object
		}
		removeConditionTimes(content)
		list, _ := out[name].([]any)
		out[name] = append(list, content)
	}
	for _, list := range out { // the order of names that were made up means nothing
		slices.SortStableFunc(list.([]any), func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return out
}

// IsEventOrLease reports whether Kubernetes keeps Events or Leases in a kind: kinds of the same names in other groups are different.
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

// tidy leaves out of the metadata what a server makes up, and what the operator notes.
func removeServerFields(meta map[string]any) {
	for _, field := range []string{
		"resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "deletionGracePeriodSeconds",
	} {
		delete(meta, field)
	}
	if _, ok := meta["deletionTimestamp"]; ok {
		meta["deletionTimestamp"] = "some time" // that it is being deleted counts
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		maps.DeleteFunc(annotations, func(key string, _ any) bool {
			return strings.HasPrefix(key, progress.DefaultPrefix+"/") || strings.HasPrefix(key, "kopf-runtime.dev/") ||
				strings.HasSuffix(key, "/kopf-managed") // it stands beside the progress of an operator with a prefix of its own (KEY-21)
		})
		if len(annotations) == 0 {
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

// withoutTransitions leaves out when conditions have changed: that depends on the trouble.
func removeConditionTimes(content map[string]any) {
	status, _ := content["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok {
			delete(condition, "lastTransitionTime")
			delete(condition, "observedGeneration")
		}
	}
}

// SplitPath splits a dotted path, as kopf.Field does.
func SplitPath(path string) []string {
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

// compareSnapshots returns the first difference after some trouble, and of which kind it is: the same kind of difference may show in
// several steps, with other values. Both are empty if nothing differs.
func compareSnapshots(first, second []Snapshot) (kind, text string) {
	for i, here := range first {
		if i == len(second) {
			return "no end", "the story has come to no end"
		}
		kind, differs := here.Compare(second[i])
		if differs != "" && i > 0 {
			return kind, fmt.Sprintf("after step %d of the story, %s", i, differs)
		}
		if differs != "" {
			return kind, "before the story, " + differs
		}
	}
	return "", ""
}

// Compare returns the first difference, and of which kind it is. Both are empty if nothing differs.
func (s Snapshot) Compare(other Snapshot) (kind, text string) {
	state, counterpart := matchRandomNames(s.State, other.State)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		here, _ := state[name].([]any)
		there, ok := counterpart[name].([]any)
		switch {
		case !ok:
			return "missing " + kindOf(name), name + " is missing"
		case len(here) != len(there):
			return "number of " + name, fmt.Sprintf("there are %d of %s, not %d", len(there), name, len(here))
		}
		for i := range here {
			if d := diff.Of(here[i], there[i]); !d.Empty() {
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
			return "also " + kindOf(name), "there is also " + name
		}
	}
	if s.ExternalDump != other.ExternalDump {
		return "outside", fmt.Sprintf("outside of the cluster there is %s, not %s", other.External, s.External)
	}
	return "", ""
}

// kindOf returns the kind and the namespace of a name in a state, such as "Secret default" of "Secret default/orders".
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// withoutRandomNames takes the objects together that exist in only one of two states, and differ from a counterpart of the same
// kind in the other state in nothing but their names: handlers may give children random names, and find them by labels or owners. Strings
// elsewhere that are such a name become equal, too.
func matchRandomNames(here, there map[string]any) (map[string]any, map[string]any) {
	renamed := map[string]string{} // names there by names here
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if _, ok := there[name]; ok {
			continue
		}
		for _, candidate := range slices.Sorted(maps.Keys(there)) {
			_, known := here[candidate]
			if !known && renamed[candidate] == "" && kindOf(candidate) == kindOf(name) &&
				diff.Equal(withoutName(here[name]), withoutName(there[candidate])) {
				renamed[candidate] = name
				break
			}
		}
	}
	if len(renamed) == 0 {
		return here, there
	}
	short := map[string]string{}
	for from, to := range renamed {
		short[from[strings.LastIndex(from, "/")+1:]] = to[strings.LastIndex(to, "/")+1:]
	}
	out := map[string]any{}
	for name, objects := range there {
		out[cmp.Or(renamed[name], name)] = replaceNames(objects, short)
	}
	return here, out
}

// nameless returns the objects of one name without that name.
func withoutName(objects any) any {
	list, _ := objects.([]any)
	out := make([]any, len(list))
	for i, item := range list {
		content := runtime.DeepCopyJSON(item.(map[string]any))
		removePath(content, []string{"metadata", "name"})
		out[i] = content
	}
	return out
}

// withNames returns a value with other names in place of some strings.
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
