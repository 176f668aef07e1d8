package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// computePatch returns the operations that apply a handler's changes to the raw object. before and after are the object before and after
// calling the handler. Both were converted to a Go type, which may lack fields of the raw object and may add empty fields, so the patch
// contains only differences between them. All arguments are JSON.
func computePatch(raw, before, after []byte) ([]jsonpatch.Operation, error) {
	var values [3]any
	for i, text := range [][]byte{raw, before, after} {
		var err error
		if values[i], err = decodeJSON(text); err != nil {
			return nil, err
		}
	}
	wanted := mergeChange(values[0], values[1], values[2])
	if _, ok := wanted.(map[string]any); !ok {
		return nil, fmt.Errorf("the changed object must be a JSON object, got %T", wanted)
	}
	var ops patchBuilder
	ops.compare("", values[0], wanted)
	return ops, nil
}

// decodeJSON decodes JSON without converting numbers, so that large numbers aren't rounded.
func decodeJSON(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// isUnchanged reports whether a handler left its object unchanged. The strict comparison runs first, because it is much faster and most
// validating handlers don't change the object. The semantic comparison also accepts different notations of a quantity or a time. It panics
// when it reaches an unexported field, even an unchanged one, and isUnchanged then returns false.
func isUnchanged(before runtime.Object, after client.Object) bool {
	was, untyped := before.(*unstructured.Unstructured)
	if is, ok := after.(*unstructured.Unstructured); ok && untyped {
		return identical(was.Object, is.Object)
	}
	if reflect.DeepEqual(before, after) {
		return true
	}
	equal := false
	err := guard.Catch("", func() error { equal = equality.Semantic.DeepEqual(before, after); return nil })
	return equal && err == nil
}

// mergeChange applies the difference between before and after to raw.
func mergeChange(raw, before, after any) any {
	if identical(before, after) {
		return raw
	}
	switch to := after.(type) {
	case map[string]any:
		from, hadMap := before.(map[string]any)
		is, isMap := raw.(map[string]any)
		if hadMap && isMap {
			return mergeMap(is, from, to)
		}
	case []any:
		from, hadList := before.([]any)
		is, isList := raw.([]any)
		if hadList && isList && len(is) == len(from) {
			return mergeList(is, from, to)
		}
	}
	return after
}

func mergeMap(raw, before, after map[string]any) map[string]any {
	out := make(map[string]any, len(raw))
	for key, value := range raw {
		_, was := before[key]
		_, stays := after[key]
		if stays || !was {
			out[key] = value
		}
	}
	for key, to := range after {
		from, was := before[key]
		if was && identical(from, to) {
			continue // unchanged fields include empty fields that only the Go type adds
		}
		is, there := raw[key]
		if !was || !there {
			out[key] = to
		} else {
			out[key] = mergeChange(is, from, to)
		}
	}
	return out
}

// mergeList maps each element of after to its origin in before, so that the element keeps fields that the Go type lacks. The origin is an
// equal element or one with the same name. In lists of the same length, an element without a name can also originate from the one at the
// same index.
func mergeList(raw, before, after []any) []any {
	used := make([]bool, len(before))
	origin := make([]int, len(after))
	for j := range after {
		origin[j] = -1
	}
	// Most lists change in one place, so skip the equal elements at both ends.
	for j := 0; j < min(len(before), len(after)) && identical(before[j], after[j]); j++ {
		origin[j], used[j] = j, true
	}
	for i, j := len(before)-1, len(after)-1; i >= 0 && j >= 0 && !used[i] && origin[j] < 0 && identical(before[i], after[j]); i, j = i-1, j-1 {
		origin[j], used[i] = i, true
	}
	// Users control the length of lists, so an index by key avoids quadratic time.
	matchBy := func(keyOf func(any) (string, bool)) {
		positions := map[string][]int{}
		for i, element := range before {
			if key, ok := keyOf(element); ok && !used[i] {
				positions[key] = append(positions[key], i)
			}
		}
		for j, element := range after {
			if origin[j] >= 0 || len(positions) == 0 {
				continue
			}
			if key, ok := keyOf(element); ok && len(positions[key]) > 0 {
				origin[j], positions[key] = positions[key][0], positions[key][1:]
				used[origin[j]] = true
			}
		}
	}
	matchBy(elementJSON)
	matchBy(elementName)
	if len(before) == len(after) {
		for i := range before {
			_, had := elementName(before[i])
			if _, has := elementName(after[i]); !had && !has && !used[i] && origin[i] < 0 {
				origin[i], used[i] = i, true
			}
		}
	}
	out := make([]any, len(after))
	for j, i := range origin {
		if i < 0 {
			out[j] = after[j]
		} else {
			out[j] = mergeChange(raw[i], before[i], after[j])
		}
	}
	return out
}

// elementName returns the name of a list element, which is the merge key of most lists in Kubernetes.
func elementName(value any) (string, bool) {
	element, _ := value.(map[string]any)
	name, ok := element["name"].(string)
	return name, ok
}

// elementJSON returns the JSON of a list element, which identifies equal elements.
func elementJSON(value any) (string, bool) {
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// patchBuilder collects the operations of a JSON patch in the order in which they must be applied.
type patchBuilder []jsonpatch.Operation

func (ops *patchBuilder) emit(operation, path string, value any) {
	*ops = append(*ops, jsonpatch.NewOperation(operation, path, value))
}

func (ops *patchBuilder) compare(path string, is, wanted any) {
	if identical(is, wanted) {
		return
	}
	switch to := wanted.(type) {
	case map[string]any:
		if from, ok := is.(map[string]any); ok {
			ops.compareMaps(path, from, to)
			return
		}
	case []any:
		if from, ok := is.([]any); ok {
			ops.compareLists(path, from, to)
			return
		}
	}
	ops.emit("replace", path, wanted)
}

func (ops *patchBuilder) compareMaps(path string, is, wanted map[string]any) {
	for _, key := range sortedKeys(is, wanted) {
		below := path + "/" + escapePointer(key)
		from, was := is[key]
		to, will := wanted[key]
		switch {
		case !was:
			ops.emit("add", below, to)
		case !will:
			ops.emit("remove", below, nil)
		default:
			ops.compare(below, from, to)
		}
	}
}

// maxOperations limits the operations in one list, because API servers apply them one by one and move all following elements in
// each operation.
const maxOperations = 1000

// compareLists skips equal elements at both ends and compares the rest one by one. If this takes more than maxOperations operations, it
// replaces the list.
func (ops *patchBuilder) compareLists(path string, is, wanted []any) {
	start := 0
	for start < min(len(is), len(wanted)) && identical(is[start], wanted[start]) {
		start++
	}
	end, wantedEnd := len(is), len(wanted)
	for end > start && wantedEnd > start && identical(is[end-1], wanted[wantedEnd-1]) {
		end, wantedEnd = end-1, wantedEnd-1
	}
	before := len(*ops)
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	common := min(end, wantedEnd)
	for i := start; i < common; i++ {
		ops.compare(at(i), is[i], wanted[i])
	}
	for i := end - 1; i >= common; i-- {
		ops.emit("remove", at(i), nil)
	}
	for i := common; i < wantedEnd; i++ {
		ops.emit("add", at(i), wanted[i])
	}
	if len(*ops)-before > maxOperations {
		*ops = (*ops)[:before]
		ops.emit("replace", path, wanted)
	}
}

// identical reports whether two JSON values are equal. It distinguishes null from an absent field, and different notations of a number.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			other, has := b[key]
			if !has || !identical(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, identical)
	default:
		switch b.(type) {
		case map[string]any, []any:
			return false
		}
		return a == b
	}
}

func sortedKeys(a, b map[string]any) []string {
	keys := make([]string, 0, len(a)+len(b))
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// escapePointer escapes a key for a JSON pointer.
func escapePointer(key string) string { return pointerEscaper.Replace(key) }
