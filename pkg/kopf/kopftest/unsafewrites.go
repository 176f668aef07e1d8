package kopftest

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// unsafeWrites returns a description of each write that can overwrite a concurrent change.
func unsafeWrites(writes []Write) (findings []string) {
	for _, w := range writes {
		content, _ := w.Body.(map[string]any)
		meta, _ := content["metadata"].(map[string]any)
		if version, _ := meta["resourceVersion"].(string); version != "" || w.Code >= http.StatusBadRequest {
			continue
		}
		switch {
		case w.Verb == "update" && w.Subresource != "scale":
			findings = append(findings, fmt.Sprintf("%q replaces the whole object without a resourceVersion, so it overwrites concurrent changes: "+
				"update an object that was read, or use a patch", w))
		case w.Verb == "patch" && w.PatchType == types.MergePatchType:
			if list := findList(content, nil); list != "" {
				findings = append(findings, fmt.Sprintf("%q replaces the list %s without a resourceVersion, so it overwrites concurrent changes of the list: "+
					"use client.MergeFromWithOptimisticLock, server-side apply, or req.Object", w, list))
			}
		case w.Verb == "patch" && w.PatchType == types.JSONPatchType && !isGuarded(w.Body):
			if item := itemIndex(w.Body); item != "" {
				findings = append(findings, fmt.Sprintf("%q addresses %s by its index without a test, so it can change another item after a concurrent change: "+
					"test the resourceVersion or the old item first, or use req.Object", w, item))
			}
			if list := writtenList(w.Body); list != "" {
				findings = append(findings, fmt.Sprintf("%q replaces the list at %s without a test, so it overwrites concurrent changes of the list: "+
					"test the resourceVersion or the old list first, append an item, or use req.Object", w, list))
			}
		}
	}
	return findings
}

// isGuarded reports whether a JSON patch tests something, or sets the resourceVersion, which the API server compares.
func isGuarded(body any) bool {
	operations, _ := body.([]any)
	return slices.ContainsFunc(operations, func(operation any) bool {
		fields, _ := operation.(map[string]any)
		return fields["op"] == "test" || fields["path"] == "/metadata/resourceVersion" && fields["op"] != "remove"
	})
}

// writtenList returns the first path at which a JSON patch writes a list.
func writtenList(body any) (where string) {
	operations, _ := body.([]any)
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		path, _ := fields["path"].(string)
		if (fields["op"] == "add" || fields["op"] == "replace") && findList(map[string]any{path: fields["value"]}, nil) != "" {
			return path
		}
	}
	return ""
}

// itemIndex returns the first path with a list index in a JSON patch. It skips maps whose keys may be numbers.
func itemIndex(body any) (where string) {
	operations, _ := body.([]any)
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		for _, field := range []string{"path", "from"} {
			if path, _ := fields[field].(string); where == "" && numbered.MatchString(path) && !mapped.MatchString(path) {
				where = path
			}
		}
	}
	return where
}

var (
	numbered = regexp.MustCompile(`/\d+(/|$)`)
	mapped   = regexp.MustCompile(`^/(data|stringData|binaryData|metadata/labels|metadata/annotations)/`)
)

// findList returns the dotted path of the first list in a document.
func findList(content map[string]any, path []string) string {
	for _, key := range slices.Sorted(maps.Keys(content)) {
		at := append(slices.Clone(path), key)
		switch value := content[key].(type) {
		case []any:
			return strings.Join(at, ".")
		case map[string]any:
			if found := findList(value, at); found != "" {
				return found
			}
		}
	}
	return ""
}
