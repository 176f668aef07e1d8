package explore

import (
	"maps"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// WrittenFieldGroups returns the sorted names of the field groups in a write's body, such as "spec", "baseline" or "status.conditions". The
// body is a decoded object, merge patch, or JSON patch.
func WrittenFieldGroups(body any) []string {
	groups := map[string]bool{}
	switch body := body.(type) {
	case map[string]any:
		collect(groups, nil, body)
	case []any:
		for _, operation := range body {
			fields, _ := operation.(map[string]any)
			path, _ := fields["path"].(string)
			if path == "" || fields["op"] == "test" {
				continue
			}
			keys := strings.Split(strings.TrimPrefix(path, "/"), "/")
			for i, key := range keys {
				keys[i] = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
			}
			if value, ok := fields["value"].(map[string]any); ok && len(keys) < 3 {
				collect(groups, keys, value)
				continue
			}
			groups[groupOf(keys)] = true
		}
	}
	delete(groups, "")
	return slices.Sorted(maps.Keys(groups))
}

func collect(groups map[string]bool, path []string, content map[string]any) {
	for key, value := range content {
		at := append(slices.Clone(path), key)
		inner, nested := value.(map[string]any)
		if nested && len(inner) > 0 && (at[0] == "metadata" || at[0] == "status") && len(at) < 3 {
			collect(groups, at, inner)
			continue
		}
		groups[groupOf(at)] = true
	}
}

// groupOf returns a path's group. It is empty for fields that identify the object.
func groupOf(path []string) string {
	switch path[0] {
	case "apiVersion", "kind":
		return ""
	case "status":
		if len(path) > 1 && (path[1] == "conditions" || path[1] == "kopf") {
			return "status." + path[1]
		}
		return "status"
	case "metadata":
	default:
		return path[0]
	}
	if len(path) < 2 {
		return "metadata"
	}
	switch path[1] {
	case "resourceVersion", "uid", "name", "namespace", "generateName":
		return ""
	case "annotations":
	default:
		return path[1]
	}
	if len(path) < 3 {
		return "annotations"
	}
	switch key := path[2]; {
	case strings.HasSuffix(key, "/last-handled-configuration"):
		return "baseline"
	case strings.HasSuffix(key, "/pinned-configuration"):
		return "pin"
	case strings.Contains(key, progress.DefaultPrefix):
		return "progress"
	default:
		return "annotations"
	}
}
