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

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// patchOf tells how the raw object becomes what the handler wanted: it has got before, and has made
// after of it. Both went through a Go type, which may not know all fields of the raw object, and adds
// empty ones: only what differs between the two counts. All values are JSON.
func patchOf(raw, before, after []byte) ([]jsonpatch.Operation, error) {
	var values [3]any
	for i, text := range [][]byte{raw, before, after} {
		var err error
		if values[i], err = decodeJSON(text); err != nil {
			return nil, err
		}
	}
	wanted := transfer(values[0], values[1], values[2])
	if _, ok := wanted.(map[string]any); !ok {
		return nil, fmt.Errorf("the object has become %T", wanted)
	}
	var ops operations
	ops.compare("", values[0], wanted)
	return ops, nil
}

// decodeJSON keeps numbers as they are written: a big one is not rounded on its way through.
func decodeJSON(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// unchanged reports whether a handler has left its object alone. Nearly all of those who validate have, so it is made
// quick: where nothing was touched, the strict comparison finds so in a fraction of the time of the semantic one, which
// also knows when a quantity or a time is the same in other words. It panics on types with fields that are not exported, unless
// they are as they were (addresses, big numbers): such an object has changed.
func unchanged(before runtime.Object, after client.Object) (unchanged bool) {
	was, untyped := before.(*unstructured.Unstructured)
	if is, ok := after.(*unstructured.Unstructured); ok && untyped {
		return same(was.Object, is.Object)
	}
	if reflect.DeepEqual(before, after) {
		return true
	}
	defer func() {
		if recover() != nil {
			unchanged = false
		}
	}()
	return equality.Semantic.DeepEqual(before, after)
}

// transfer makes the change from before to after in raw.
func transfer(raw, before, after any) any {
	if diff.Equal(before, after) {
		return raw
	}
	switch to := after.(type) {
	case map[string]any:
		from, hadMap := before.(map[string]any)
		is, isMap := raw.(map[string]any)
		if hadMap && isMap {
			return transferMap(is, from, to)
		}
	case []any:
		from, hadList := before.([]any)
		is, isList := raw.([]any)
		if hadList && isList && len(is) == len(from) {
			return transferList(is, from, to)
		}
	}
	return after
}

func transferMap(raw, before, after map[string]any) map[string]any {
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
		if was && diff.Equal(from, to) {
			continue // also if the type only shows it as empty
		}
		is, there := raw[key]
		if !was || !there {
			out[key] = to
		} else {
			out[key] = transfer(is, from, to)
		}
	}
	return out
}

// transferList finds for each element where it comes from, so that it keeps what the type does not know
// of it: an equal one, one with the same name, or else the one that was in its place.
func transferList(raw, before, after []any) []any {
	used := make([]bool, len(before))
	origin := make([]int, len(after))
	for j := range after {
		origin[j] = -1
	}
	// Most lists change in one place: the rest needs no search.
	for j := 0; j < min(len(before), len(after)) && diff.Equal(before[j], after[j]); j++ {
		origin[j], used[j] = j, true
	}
	for i, j := len(before)-1, len(after)-1; i >= 0 && j >= 0 && !used[i] && origin[j] < 0 && diff.Equal(before[i], after[j]); i, j = i-1, j-1 {
		origin[j], used[i] = i, true
	}
	// Lists may be as long as their authors like: none is searched for each element of the other.
	claim := func(keyOf func(any) (string, bool)) {
		places := map[string][]int{}
		for i, element := range before {
			if key, ok := keyOf(element); ok && !used[i] {
				places[key] = append(places[key], i)
			}
		}
		for j, element := range after {
			if origin[j] >= 0 || len(places) == 0 {
				continue
			}
			if key, ok := keyOf(element); ok && len(places[key]) > 0 {
				origin[j], places[key] = places[key][0], places[key][1:]
				used[origin[j]] = true
			}
		}
	}
	claim(textOf)
	claim(nameOf)
	if len(before) == len(after) {
		for i := range before {
			_, had := nameOf(before[i])
			if _, has := nameOf(after[i]); !had && !has && !used[i] && origin[i] < 0 {
				origin[i], used[i] = i, true
			}
		}
	}
	out := make([]any, len(after))
	for j, i := range origin {
		if i < 0 {
			out[j] = after[j]
		} else {
			out[j] = transfer(raw[i], before[i], after[j])
		}
	}
	return out
}

// nameOf is by which most lists of Kubernetes tell their elements apart.
func nameOf(value any) (string, bool) {
	element, _ := value.(map[string]any)
	name, ok := element["name"].(string)
	return name, ok
}

// textOf is the same for elements that are equal.
func textOf(value any) (string, bool) {
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// operations are those of a JSON patch, in the order in which they are to be applied.
type operations []jsonpatch.Operation

func (ops *operations) emit(operation, path string, value any) {
	*ops = append(*ops, jsonpatch.NewOperation(operation, path, value))
}

func (ops *operations) compare(path string, is, wanted any) {
	if same(is, wanted) {
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

func (ops *operations) compareMaps(path string, is, wanted map[string]any) {
	for _, key := range sortedKeys(is, wanted) {
		below := path + "/" + escape(key)
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

// maxOperations are those in one list: API servers carry them out one by one, and move all that comes behind each time.
const maxOperations = 1000

// compareLists leaves alone what is the same at both ends, and goes element by element between them. A list of which too much
// has changed is replaced.
func (ops *operations) compareLists(path string, is, wanted []any) {
	start := 0
	for start < min(len(is), len(wanted)) && same(is[start], wanted[start]) {
		start++
	}
	end, wantedEnd := len(is), len(wanted)
	for end > start && wantedEnd > start && same(is[end-1], wanted[wantedEnd-1]) {
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

// same is stricter than diff.Equal: null and absent differ in a document.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			other, has := b[key]
			if !has || !same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
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

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// escape makes a key a part of a JSON pointer.
func escape(key string) string { return pointer.Replace(key) }
