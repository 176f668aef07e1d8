package decoding

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// mayPanic reports whether a Go type contains types that decode themselves. These can panic, and client-go decodes watch events in a
// goroutine, where a panic kills the process. mayPanic trusts the types of Kubernetes and of the standard library.
func mayPanic(t reflect.Type) bool { return containsDecoder(t, map[reflect.Type]bool{}) }

func containsDecoder(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || isTrusted(t) {
		return false
	}
	seen[t] = true
	if pointer := reflect.PointerTo(t); pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler) {
		return true
	}
	switch t.Kind() { //nolint:exhaustive // other types contain no types
	case reflect.Struct:
		for field := range t.Fields() {
			if containsDecoder(field.Type, seen) {
				return true
			}
		}
	case reflect.Map:
		return containsDecoder(t.Key(), seen) || containsDecoder(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return containsDecoder(t.Elem(), seen)
	}
	return false
}

// isTrusted reports whether a named type belongs to the standard library or to a Kubernetes module, whose import path starts with k8s.io.
func isTrusted(t reflect.Type) bool {
	if t.PkgPath() == "" {
		return false
	}
	first, _, _ := strings.Cut(t.PkgPath(), "/")
	return first == "k8s.io" || !strings.Contains(first, ".") && first != "main"
}
