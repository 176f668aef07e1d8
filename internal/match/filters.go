package match

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Test tests one value in its decoded JSON form, or nil if the field is absent. It must not change the value.
type Test func(value any) bool

// Filters select objects that pass all of them.
type Filters struct {
	Labels, Annotations []KeyFilter
	Owners              []schema.GroupKind // at least one owner must be of one of these kinds; if empty, owners are ignored
	Field               *FieldFilter
	SkipsDeletion       bool // objects that are being deleted do not match
}

// KeyFilter tests the value of one label or annotation.
type KeyFilter struct {
	Name  string
	Tests []Test
	// Wanted describes the tests.
	Wanted string
}

// FieldFilter tests the value of one field, or its change.
type FieldFilter struct {
	Path []string
	// Tests test the value. Without any, the field must be present.
	Tests []Test
	// From and To test the value before and after a change.
	From, To []Test
	// Wanted describes all tests.
	Wanted string
}

// Input is what filters are applied to.
type Input struct {
	// Object is the current object in its JSON form.
	Object map[string]any
	// HasCause is true for cause handlers. Old and New are then the essences before and after the change.
	HasCause bool
	Old, New map[string]any
	// OldUnknown is true if the object has changed but only a digest of the previous state is known. Old is then nil.
	OldUnknown bool
}

// MatchObject applies all filters, except the conditions on how a field has changed: MatchCause checks those.
func (f Filters) MatchObject(o Input) Refusal {
	meta, _ := o.Object["metadata"].(map[string]any)
	if f.SkipsDeletion && meta["deletionTimestamp"] != nil {
		return Refusal{Rule: Deleting}
	}
	for _, part := range []struct {
		rule Rule
		name string
		keys []KeyFilter
	}{{Label, "labels", f.Labels}, {Annotation, "annotations", f.Annotations}} {
		values, _ := meta[part.name].(map[string]any)
		for _, key := range part.keys {
			if !passesAll(key.Tests, values[key.Name]) {
				return Refusal{Rule: part.rule, Name: key.Name, Value: values[key.Name], Wanted: key.Wanted}
			}
		}
	}
	if len(f.Owners) > 0 && !f.hasMatchingOwner(meta) {
		return Refusal{Rule: Owner}
	}
	if f.Field != nil && !f.Field.matchesValue(o) {
		present := o.Object
		if o.HasCause {
			present = o.New
		}
		return f.Field.refusal(Field, nil, f.Field.valueIn(present))
	}
	return Refusal{}
}

func (f *FieldFilter) refusal(rule Rule, before, after any) Refusal {
	return Refusal{Rule: rule, Name: strings.Join(f.Path, "."), Old: before, Value: after, Wanted: f.Wanted}
}

// matchesValue tests the field's value. With a cause, either the old or the new value must match, so that a handler is selected even when a
// matching value is removed. If the old value is unknown, the field may have been present.
func (f *FieldFilter) matchesValue(o Input) bool {
	if o.HasCause && o.OldUnknown && len(f.Tests) == 0 {
		return true
	}
	values := []any{f.valueIn(o.Object)}
	if o.HasCause {
		values = []any{f.valueIn(o.New), f.valueIn(o.Old)}
	}
	for _, value := range values {
		if len(f.Tests) == 0 && value != nil || len(f.Tests) > 0 && passesAll(f.Tests, value) {
			return true
		}
	}
	return false
}

// matchChange checks whether the field has changed as required. Without a field filter, any change will do. If the old value is unknown,
// the field may have changed.
func (f Filters) matchChange(o Input) Refusal {
	if f.Field == nil {
		return Refusal{}
	}
	before, after := f.Field.valueIn(o.Old), f.Field.valueIn(o.New)
	switch {
	case o.OldUnknown && len(f.Field.From) > 0:
		return f.Field.refusal(FieldFrom, nil, after)
	case !o.OldUnknown && diff.Equal(before, after):
		return f.Field.refusal(FieldUnchanged, before, after)
	case !passesAll(f.Field.From, before):
		return f.Field.refusal(FieldFrom, before, after)
	case !passesAll(f.Field.To, after):
		return f.Field.refusal(FieldTo, before, after)
	default:
		return Refusal{}
	}
}

func (f *FieldFilter) valueIn(content map[string]any) any {
	value, _ := diff.Lookup(content, f.Path...)
	return value
}

func passesAll(tests []Test, value any) bool {
	for _, test := range tests {
		if !test(value) {
			return false
		}
	}
	return true
}

func (f Filters) hasMatchingOwner(meta map[string]any) bool {
	owners, _ := meta["ownerReferences"].([]any)
	for _, entry := range owners {
		owner, _ := entry.(map[string]any)
		version, _ := owner["apiVersion"].(string)
		kind, _ := owner["kind"].(string)
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			continue
		}
		if slices.Contains(f.Owners, schema.GroupKind{Group: gv.Group, Kind: kind}) {
			return true
		}
	}
	return false
}
