package webhooks

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A requirement is what an option demands of a label, an annotation or a field. Only [Hook.Check] uses it.
type requirement struct {
	option  string   // the option, for errors
	subject string   // the label, annotation or field
	field   []string // the path of a field
	any     bool     // there may be a value or none
	absent  bool     // there must be no value
	values  []any    // the value must be one of these; without values, any value passes
}

func (h *Hook) require(r requirement) {
	h.settings.requirements = append(h.settings.requirements, r)
}

// option formats an option as Go code, for errors.
func option[V any](name, key string, values []V) string {
	args := []string{fmt.Sprintf("%q", key)}
	for _, value := range values {
		args = append(args, fmt.Sprintf("%#v", value))
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

func toAny(values []string) (out []any) {
	for _, value := range values {
		out = append(out, value)
	}
	return out
}

// checkRequirements adds errors for options that no request can match, and for options that are mutually exclusive.
func (h *Hook) checkRequirements() {
	earlier := map[string][]requirement{}
	for _, r := range h.settings.requirements {
		h.checkField(r)
		if r.any {
			continue
		}
		all := append(earlier[r.subject], r)
		if !possible(all) {
			var options []string
			for _, one := range all {
				options = append(options, one.option)
			}
			h.addErrorf("%s can never match: %s are mutually exclusive: remove one of them", r.option, strings.Join(options, " and "))
			continue
		}
		earlier[r.subject] = all
	}
}

// possible reports whether any value passes all requirements.
func possible(all []requirement) bool {
	if absent := slices.IndexFunc(all, func(r requirement) bool { return r.absent }); absent >= 0 {
		return !slices.ContainsFunc(all, func(r requirement) bool { return !r.absent })
	}
	var candidates []any
	restricted := false
	for _, r := range all {
		if len(r.values) == 0 {
			continue
		}
		if !restricted {
			candidates, restricted = slices.Clone(r.values), true
			continue
		}
		candidates = slices.DeleteFunc(candidates, func(value any) bool {
			return !slices.ContainsFunc(r.values, func(other any) bool { return diff.Equal(value, other) })
		})
	}
	return !restricted || len(candidates) > 0
}

// checkField adds errors if a field is probably misspelled, judging by the hook's Go type, or if it can't have the values. The Go type may
// lack fields of the objects.
func (h *Hook) checkField(r requirement) {
	if r.field == nil || h.obj == nil || !h.isTyped() {
		return
	}
	root := validation.GoType(reflect.TypeOf(h.obj))
	field, unknown, suggestion := validation.LookUpField(root, r.field)
	switch {
	case unknown != "" && suggestion != "":
		h.addErrorf("%s: the Go type %T has no field %s; did you mean %s? If the objects have the field nevertheless, use MatchConditions", r.option, h.obj, unknown, suggestion)
		return
	case unknown != "":
		return
	}
	for _, value := range r.values {
		if want := field.JSON(); want != validation.JSONAny && !want.Accepts(value) {
			text, _ := json.Marshal(value) // the value is decoded JSON
			h.addErrorf("%s: %s can never match: the field is %s: use %s", r.option, text, want, want.Suggest(value))
		}
	}
}
