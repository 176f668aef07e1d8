package progress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// IgnoringFields is the baseline without some fields of the object: their changes are none. They are
// dotted paths, such as "spec.replicas"; what follows "metadata.labels." or "metadata.annotations." is
// one key, dots and all. Parents that have no other fields are left out with them.
//
// The fields are left out of what is compared on both sides, so that naming one more is no change of
// the objects that were handled before.
//
// kopf: ignored_fields= of the diff-base storages.
func IgnoringFields(baseline Baseline, paths ...string) Baseline {
	return ignoringBaseline{baseline, slices.Clone(paths)}
}

type ignoringBaseline struct {
	Baseline
	paths []string
}

// Check implements [Checker].
func (b ignoringBaseline) Check() error {
	var problems []error
	if b.Baseline == nil {
		problems = append(problems, errors.New("IgnoringFields(nil): give it a baseline, such as AnnotationBaseline"))
	}
	for _, path := range b.paths {
		if slices.Contains(essencePath(path), "") {
			problems = append(problems, fmt.Errorf("IgnoringFields: %q is no field: name one such as \"spec.replicas\"", path))
		}
	}
	if checker, ok := b.Baseline.(Checker); ok {
		problems = append(problems, checker.Check())
	}
	return errors.Join(problems...)
}

// Fields implements [FieldUser].
func (b ignoringBaseline) Fields() []string { return fieldsOf([]Baseline{b.Baseline}) }

func (b ignoringBaseline) Clear(essence map[string]any) {
	b.Baseline.Clear(essence)
	for _, path := range b.paths {
		clearField(essence, essencePath(path))
	}
}

// essencePath splits a path. Labels and annotations have no fields below them, but dots in their keys.
func essencePath(path string) []string {
	for _, flat := range []string{"labels", "annotations"} {
		if key, ok := strings.CutPrefix(path, "metadata."+flat+"."); ok {
			return []string{"metadata", flat, key}
		}
	}
	return strings.Split(path, ".")
}
