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

// unsafeWrites are those that would lose what somebody else has written since.
func unsafeWrites(writes []Write) (findings []string) {
	for _, w := range writes {
		content, _ := w.Body.(map[string]any)
		meta, _ := content["metadata"].(map[string]any)
		if version, _ := meta["resourceVersion"].(string); version != "" || w.Code >= http.StatusBadRequest {
			continue
		}
		switch {
		case w.Verb == "update" && w.Subresource != "scale":
			findings = append(findings, fmt.Sprintf("%q replaces the whole object without its resourceVersion: it loses what others have written meanwhile. "+
				"Update an object that was read, or patch what is yours", w))
		case w.Verb == "patch" && w.PatchType == types.MergePatchType:
			if list := findList(content, nil); list != "" {
				findings = append(findings, fmt.Sprintf("%q replaces the list %s without the resourceVersion of what it was made of: it loses what others "+
					"have put into it meanwhile. Use client.MergeFromWithOptimisticLock, server-side apply, or req.Object", w, list))
			}
		case w.Verb == "patch" && w.PatchType == types.JSONPatchType:
			if item := untestedItemIndex(w.Body); item != "" {
				findings = append(findings, fmt.Sprintf("%q counts on %s being what it was, without a test: if others have put something before it meanwhile, "+
					"it hits theirs. Test the resourceVersion or the old item first, or use req.Object", w, item))
			}
			if list := untestedListWrite(w.Body); list != "" {
				findings = append(findings, fmt.Sprintf("%q puts a list at %s without a test of what was there: it loses what others have put into it "+
					"meanwhile. Test the resourceVersion or the old list first, add to its end, or use req.Object", w, list))
			}
		}
	}
	return findings
}

// untestedListWrite is where a JSON patch puts a list, if it tests nothing.
func untestedListWrite(body any) (where string) {
	operations, _ := body.([]any)
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		path, _ := fields["path"].(string)
		switch fields["op"] {
		case "test":
			return ""
		case "add", "replace":
			if findList(map[string]any{path: fields["value"]}, nil) != "" && where == "" {
				where = path
			}
		}
	}
	return where
}

// untestedItemIndex is where a JSON patch has to do with an item of a list by its number, if it tests nothing. Keys of maps may be numbers, too.
func untestedItemIndex(body any) (where string) {
	operations, _ := body.([]any)
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		if fields["op"] == "test" {
			return ""
		}
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

// listIn is the path of a list in a document.
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
