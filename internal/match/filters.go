package match

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A Test is asked about one value; an absent one is nil.
type Test func(value any) bool

// Filters are what the object of a handler has to be like. All of them have to pass.
type Filters struct {
	Labels, Annotations []KeyFilter
	Owners              []schema.GroupKind // at least one owner is of one of these kinds
	Field               *FieldFilter
}

// A Key is one label or annotation with its tests.
type KeyFilter struct {
	Name  string
	Tests []Test
}

// A Field is one field with its tests.
type FieldFilter struct {
	Path []string
	// Tests of the value. None: it has to be there.
	Tests []Test
	// From and To are tests of the value before and after a change.
	From, To []Test
}

// A Subject is what filters look at.
type Input struct {
	// Object is the JSON form of the object as it is.
	Object map[string]any
	// Old and New are the essences between which something has happened, for handlers of causes. Without
	// a cause there is only the object.
	HasCause bool
	Old, New map[string]any
}

// Prematch asks all filters but those about changes: whether the object is any of the handler's business
// (FLT-12).
func (f Filters) MatchObject(o Input) (ok bool, why string) {
	meta, _ := o.Object["metadata"].(map[string]any)
	for _, stanza := range []struct {
		name string
		keys []KeyFilter
	}{{"labels", f.Labels}, {"annotations", f.Annotations}} {
		values, _ := meta[stanza.name].(map[string]any)
		for _, key := range stanza.keys {
			if !passesAll(key.Tests, values[key.Name]) {
				return false, fmt.Sprintf("metadata.%s[%q] does not match", stanza.name, key.Name)
			}
		}
	}
	if len(f.Owners) > 0 && !f.hasMatchingOwner(meta) {
		return false, "it has no owner of the wanted kind"
	}
	if f.Field != nil && !f.Field.matchesValue(o) {
		return false, "the field " + strings.Join(f.Field.Path, ".") + " does not match"
	}
	return true, ""
}

// concerns asks about the value of the field. Where something has happened to the object, it may be the
// old one or the new one: a handler is told, too, when a value that it wants goes away (FLT-04, FLT-05).
func (f *FieldFilter) matchesValue(o Input) bool {
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

// changed asks whether the field has changed, and as wanted (FLT-07, FLT-08). A handler without a field
// is content with any change.
func (f Filters) matchChange(o Input) (ok bool, why string) {
	if f.Field == nil {
		return true, ""
	}
	before, after := f.Field.valueIn(o.Old), f.Field.valueIn(o.New)
	switch name := strings.Join(f.Field.Path, "."); {
	case diff.Equal(before, after):
		return false, "the field " + name + " has not changed"
	case !passesAll(f.Field.From, before):
		return false, "the field " + name + " has changed from another value than wanted"
	case !passesAll(f.Field.To, after):
		return false, "the field " + name + " has changed to another value than wanted"
	default:
		return true, ""
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
