package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// comparable removes the values that differ between servers from a response.
func (a answer) comparable() answer {
	out := answer{Code: a.Code}
	for _, value := range a.Values {
		obj, ok := value.(map[string]any)
		switch event, isEvent := obj["object"].(map[string]any); {
		case !ok:
			out.Values = append(out.Values, nil) // the server rejected the request with a plain-text message
		case isEvent && obj["type"] == "BOOKMARK" && !endsListing(event):
			// servers send such bookmarks at any time
		case isEvent:
			out.Values = append(out.Values, map[string]any{"type": obj["type"], "object": plain(event)})
		default:
			out.Values = append(out.Values, plain(obj))
		}
	}
	return out
}

func endsListing(obj map[string]any) bool {
	return strings.Contains(fmt.Sprint(obj["metadata"]), "k8s.io/initial-events-end")
}

// plain returns an object, list or status without the values that a server sets.
func plain(obj map[string]any) map[string]any {
	if obj["kind"] == "Status" {
		return plainStatus(obj)
	}
	out := maps.Clone(obj)
	if kind, _ := obj["kind"].(string); strings.HasSuffix(kind, "List") && kind != "APIResourceList" {
		all := []any{}
		items, _ := obj["items"].([]any)
		for _, item := range items {
			if one, ok := item.(map[string]any); ok {
				all = append(all, plain(one))
			}
		}
		out["items"] = all
		delete(out, "metadata")
		return out
	}
	if resources, isList := obj["resources"].([]any); isList {
		out["resources"] = plainResources(resources)
		return out
	}
	meta, _ := obj["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(meta, field)
	}
	if meta["deletionTimestamp"] != nil {
		meta["deletionTimestamp"] = "set"
	}
	if prefix, ok := meta["generateName"].(string); ok {
		if name, ok := meta["name"].(string); ok && strings.HasPrefix(name, prefix[:min(len(prefix), 58)]) && name != "own" {
			meta["name"] = prefix + "and some letters"
		}
	}
	if meta != nil {
		out["metadata"] = meta
	}
	return out
}

// plainStatus returns the status values that clients evaluate: reasons and causes, but no messages.
func plainStatus(obj map[string]any) map[string]any {
	details, _ := obj["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	var found []string
	for _, cause := range causes {
		if c, ok := cause.(map[string]any); ok {
			found = append(found, fmt.Sprint(c["reason"], " ", c["field"]))
		}
	}
	slices.Sort(found)
	found = slices.Compact(found) // real servers repeat some causes
	if slices.ContainsFunc(found, func(cause string) bool { return strings.HasSuffix(cause, "generateName") }) {
		delete(details, "name")
	}
	return map[string]any{
		"status": obj["status"], "code": obj["code"], "reason": obj["reason"],
		"name": details["name"], "group": details["group"], "kind": details["kind"], "causes": found,
	}
}

// plainResources returns a discovery document without the values that only users read.
func plainResources(resources []any) []any {
	var out []any
	for _, r := range resources {
		if one, ok := r.(map[string]any); ok {
			one = maps.Clone(one)
			for _, field := range []string{"storageVersionHash", "shortNames", "categories"} {
				delete(one, field)
			}
			if verbs, ok := one["verbs"].([]any); ok {
				slices.SortFunc(verbs, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out
}

// within returns the fields of the real server's response that the in-memory server's response also has.
func within(real, memory any) any {
	switch m := memory.(type) {
	case map[string]any:
		r, ok := real.(map[string]any)
		if !ok {
			return real
		}
		out := map[string]any{}
		for field, value := range m {
			if there, ok := r[field]; ok {
				out[field] = within(there, value)
			}
		}
		return out
	case []any:
		r, ok := real.([]any)
		if !ok || len(r) != len(m) {
			return real
		}
		var out []any
		for i := range m {
			out = append(out, within(r[i], m[i]))
		}
		return out
	default:
		return real
	}
}
