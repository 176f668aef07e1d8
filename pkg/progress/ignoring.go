package progress

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IgnoringFields returns a baseline that ignores changes to some fields. The paths are dotted, such as "spec.replicas". After
// "metadata.labels." or "metadata.annotations.", the rest of a path is a single key, which may contain dots. The baseline also ignores
// parents that contain only ignored fields.
//
// The fields are removed from both the current and the stored essence, so adding a path doesn't cause updates of objects that were handled
// before.
//
// Equivalent in kopf: ignored_fields= of the diff-base storages.
func IgnoringFields(baseline Baseline, paths ...string) Baseline {
	return ignoringBaseline{baseline, slices.Clone(paths)}
}

type ignoringBaseline struct {
	Baseline
	paths []string
}

// Check implements [Checker].
func (b ignoringBaseline) Check() error {
	var errs []error
	if b.Baseline == nil {
		errs = append(errs, errors.New("IgnoringFields: the baseline is nil: pass one, such as AnnotationBaseline"))
	}
	for _, path := range b.paths {
		if slices.Contains(essencePath(path), "") {
			errs = append(errs, fmt.Errorf("IgnoringFields: invalid field %q: use a path such as \"spec.replicas\"", path))
		}
	}
	if checker, ok := b.Baseline.(Checker); ok {
		errs = append(errs, checker.Check())
	}
	return errors.Join(errs...)
}

// IgnoredFields returns the paths of the ignored fields.
func (b ignoringBaseline) IgnoredFields() [][]string {
	paths := ignoredFieldsOf(b.Baseline)
	for _, path := range b.paths {
		paths = append(paths, essencePath(path))
	}
	return paths
}

func ignoredFieldsOf(b Baseline) [][]string {
	if b, ok := b.(interface{ IgnoredFields() [][]string }); ok {
		return b.IgnoredFields()
	}
	return nil
}

// Fields implements [FieldUser].
func (b ignoringBaseline) Fields() []string { return fieldsOf([]Baseline{b.Baseline}) }

// UsesOnlyAnnotations implements [AnnotationUser].
func (b ignoringBaseline) UsesOnlyAnnotations(obj client.Object) bool {
	return UsesOnlyAnnotations(b.Baseline, obj)
}

// ClearStored removes only what the [Store] or [Baseline] writes from an object in JSON form. The method Clear can remove more: with
// [IgnoringFields], it also removes the ignored fields.
func ClearStored(from interface{ Clear(essence map[string]any) }, content map[string]any) {
	if clearer, ok := from.(storedClearer); ok {
		clearer.ClearStored(content)
		return
	}
	from.Clear(content)
}

// A storedClearer is a [Baseline] whose method Clear also removes values that it doesn't write.
type storedClearer interface {
	// ClearStored removes only the values that the baseline writes.
	ClearStored(content map[string]any)
}

func (b ignoringBaseline) ClearStored(content map[string]any) { ClearStored(b.Baseline, content) }

func (b ignoringBaseline) Clear(essence map[string]any) {
	b.Baseline.Clear(essence)
	for _, path := range b.paths {
		clearField(essence, essencePath(path))
	}
}

// essencePath splits a path. Labels and annotations have no nested fields, but their keys may contain dots.
func essencePath(path string) []string {
	for _, flat := range []string{"labels", "annotations"} {
		if key, ok := strings.CutPrefix(path, "metadata."+flat+"."); ok {
			return []string{"metadata", flat, key}
		}
	}
	return strings.Split(path, ".")
}
