package webhooks

import (
	"encoding/json"
	"fmt"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// requestFilter reports whether the handler is called for a request. content is the object's decoded JSON.
type requestFilter func(object, old client.Object, content any, call *Call) bool

// Annotation calls the handler only for objects with the annotation. If values are given, the annotation must have one of them. If the
// option is given several times, all annotations must match. For a deletion, the object to be deleted must match.
//
// The webhook server evaluates Annotation, [NoAnnotation], [Field], [FieldChanged] and [When]. It allows requests that don't match
// without calling the handler. To avoid the request to the webhook server altogether, use [Label] or [MatchConditions].
//
// Equivalent in kopf: annotations=, with PRESENT or a literal.
func Annotation(key string, values ...string) Option {
	return func(h *Hook) {
		h.checkAnnotation("Annotation", key)
		h.require(requirement{option: option("Annotation", key, values), subject: "annotation " + key, values: toAny(values)})
		h.addFilter(func(object, _ client.Object, _ any, _ *Call) bool {
			value, found := object.GetAnnotations()[key]
			return found && (len(values) == 0 || slices.Contains(values, value))
		})
	}
}

// NoAnnotation calls the handler only for objects without the annotation. See [Annotation].
//
// Equivalent in kopf: annotations=, with ABSENT.
func NoAnnotation(key string) Option {
	return func(h *Hook) {
		h.checkAnnotation("NoAnnotation", key)
		h.require(requirement{option: option[string]("NoAnnotation", key, nil), subject: "annotation " + key, absent: true})
		h.addFilter(func(object, _ client.Object, _ any, _ *Call) bool {
			_, found := object.GetAnnotations()[key]
			return !found
		})
	}
}

// Field calls the handler only for objects with the field. If values are given, the field must have one of them. The path is dotted, such
// as "spec.size". Write a dot within a key as "\.", as in "metadata.labels.example\.com/tier". For a deletion, the object to be deleted
// must match. See [Annotation].
//
// Equivalent in kopf: field=, value=.
func Field(path string, values ...any) Option {
	return func(h *Hook) {
		where := fmt.Sprintf("Field(%q)", path)
		keys := h.parseField(where, path)
		wanted := make([]any, len(values))
		for i, value := range values {
			text, err := json.Marshal(value)
			if err == nil {
				err = utiljson.Unmarshal(text, &wanted[i])
			}
			if err != nil {
				h.addErrorf("%s: the value %v has no JSON form: %w", where, value, err)
			}
		}
		h.require(requirement{option: option("Field", path, values), subject: "field " + path, field: keys, values: wanted})
		h.addFilter(func(_, _ client.Object, content any, _ *Call) bool {
			value, found := fieldOf(content, keys)
			return found && (len(wanted) == 0 || slices.ContainsFunc(wanted, func(one any) bool { return diff.Equal(one, value) }))
		})
	}
}

// FieldChanged calls the handler only for requests that change the field, or a part of it. A creation changes all fields of the new object,
// and a deletion all fields of the deleted one. See [Field] for the path.
//
// kopf has no equivalent: its field= doesn't compare the objects of a request.
func FieldChanged(path string) Option {
	return func(h *Hook) {
		where := fmt.Sprintf("FieldChanged(%q)", path)
		keys := h.parseField(where, path)
		h.require(requirement{option: where, subject: "field " + path, field: keys, any: true})
		h.addFilter(func(_, _ client.Object, _ any, call *Call) bool { return !call.Diff().Reduce(keys...).Empty() })
	}
}

// When calls the handler only if the predicate returns true. The predicate must not change the request. If it panics, the request is
// denied, just as when the handler panics. See [Annotation].
//
// Equivalent in kopf: when=.
func When[T client.Object](predicate func(req *Request[T]) bool) Option {
	return func(h *Hook) {
		if predicate == nil {
			h.addErrorf("When(nil): pass a predicate or remove the option")
			return
		}
		if _, ok := h.obj.(T); h.obj != nil && !ok {
			var expected T
			h.addErrorf("When: the predicate is for %T, the handler is for %T: use the same type", expected, h.obj)
			return
		}
		h.addFilter(func(object, old client.Object, _ any, call *Call) bool {
			req := &Request[T]{Call: call}
			req.Object, _ = object.(T)
			req.Old, _ = old.(T)
			return predicate(req)
		})
	}
}

func (h *Hook) addFilter(filter requestFilter) {
	h.settings.filters = append(h.settings.filters, filter)
}

func (h *Hook) checkAnnotation(option, key string) {
	if err := validation.QualifiedName(key); err != nil {
		h.addErrorf("%s(%q) can never match: the key is invalid: %w", option, key, err)
	}
}

func (h *Hook) parseField(where, path string) []string {
	keys, err := validation.FieldPath(path)
	if err != nil {
		h.addErrorf("%s: %w", where, err)
	}
	return keys
}

// matchesFilters reports whether all filters of the hook accept a request.
func (h Hook) matchesFilters(object, old client.Object, call *Call) bool {
	if len(h.settings.filters) == 0 {
		return true
	}
	raw := call.Review.Object.Raw
	if len(raw) == 0 {
		raw = call.Review.OldObject.Raw
	}
	content := unmarshalObject(raw)
	return !slices.ContainsFunc(h.settings.filters, func(accepts requestFilter) bool { return !accepts(object, old, content, call) })
}

// fieldOf returns the value of a field. found is false if the field is absent or null.
func fieldOf(content any, keys []string) (value any, found bool) {
	for _, key := range keys {
		fields, _ := content.(map[string]any)
		content = fields[key]
	}
	return content, content != nil
}
