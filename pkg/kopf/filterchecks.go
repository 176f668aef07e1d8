package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/fieldtype"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// declarations returns the declarations of all handlers and indexes.
func (r *Resource[T]) declarations() (all []*declaration) {
	for _, h := range r.handlers {
		all = append(all, &h.declaration)
	}
	for _, x := range r.indexes {
		all = append(all, &x.declaration)
	}
	return all
}

// checkFilters returns an error for each filter of a kind that can never pass because of another option of the operator.
func (o *Operator) checkFilters(kind engine.Kind, r resource) error {
	var errs []error
	for _, d := range r.declarations() {
		found := o.contradictionsToSelector(d)
		if d.handlerKind == causeHandler {
			found = append(found, d.checkOwnAnnotations(o.storageOf(kind))...)
			found = append(found, d.checkTracked(kind.GVK.GroupKind(), o.storageOf(kind), o.essenceOf(kind)))
		}
		for _, err := range found {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", kind.GVK.Kind, d.displayName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// storageOf returns a builder that clears the progress of the handlers.
func (o *Operator) storageOf(kind engine.Kind) essence.Builder {
	if o.kinds.Settings.Store == nil { // New reports it
		return essence.Builder{}
	}
	return essence.Builder{Cleaners: []essence.Cleaner{progress.ByHandler(o.kinds.Settings.Store, kind.HandlerStores())}}
}

// essenceOf returns a builder that clears the progress of the handlers, and the fields that the baseline stores or ignores.
func (o *Operator) essenceOf(kind engine.Kind) essence.Builder {
	b := o.storageOf(kind)
	if o.kinds.Settings.Baseline == nil { // New reports it
		return b
	}
	baseline, store := o.kinds.Settings.Baseline, o.kinds.Settings.Store
	b.Cleaners = append(b.Cleaners, essence.WithDigestFallback(baseline, store), progress.Pin(baseline, store), progress.StampsOf(baseline, store))
	return b
}

// checkOwnAnnotations returns an error for each annotation filter of a cause handler whose annotation belongs to the operator. The filter can pass, but a
// change of the annotation does not count.
func (d *declaration) checkOwnAnnotations(storage essence.Builder) (errs []error) {
	for _, annotation := range d.Annotations {
		if storage.Clears([]string{"metadata", "annotations", annotation.Name}) {
			errs = append(errs, fmt.Errorf("Annotation(%q): changes of the annotation do not count, because %s", annotation.Name, explainOwnAnnotation(annotation.Name)))
		}
	}
	return errs
}

func explainOwnAnnotation(name string) string {
	prefix, _, _ := strings.Cut(name, "/")
	return fmt.Sprintf("the operator stores its own data in annotations with the prefix %s: "+
		"use an annotation with another prefix, or give WithProgress and WithBaseline a prefix that users do not set", prefix)
}

// checkTracked returns an error if the field of a cause handler never changes for the operator, or changes with each of its own writes.
func (d *declaration) checkTracked(kind schema.GroupKind, storage, all essence.Builder) error {
	if d.Criteria.Field == nil || d.isForCondition() {
		return nil
	}
	keys := d.Criteria.Field.Path
	path := validation.JoinFieldPath(keys)
	onlyUpdates := !d.AnyReason && slices.Equal(d.Reasons, []string{string(ReasonUpdate)})
	problem := ""
	switch {
	case changingFields[path] != "":
		problem = changingFields[path]
	case path == "metadata.generation" && kind == deployment: // the API server raises the generation with each change of an annotation
		problem = "each write changes this field, including those of the operator: use Field(\"spec\")"
	case path == "apiVersion" || path == "kind":
		problem = "can never match, because all objects of the resource have the same value: remove the filter"
	case onlyUpdates && slices.Contains(constantFields, path):
		problem = "can never match, because no update changes the field: use a handler for creations or deletions"
	case len(keys) > 2 && keys[1] == "annotations" && storage.Clears(keys):
		problem = "can never match, because " + explainOwnAnnotation(keys[2])
	case len(keys) > 2 && keys[1] == "labels" && sharding.IsRingLabel(keys[2]):
		problem = "can never match: the label belongs to the sharder, and its changes do not count: use another label"
	case storage.Clears(keys):
		problem = "can never match, because the operator stores its own data in the field: use another field"
	case all.Clears(keys):
		problem = "can never match, because the baseline of the operator ignores the field: remove the field from IgnoringFields, or use another field"
	default:
		return nil
	}
	return fmt.Errorf("Field(%q): %s", path, problem)
}

// checkIgnoredFields returns an error for each field of IgnoringFields that no kind has. It returns none if the fields of a kind are unknown.
func (o *Operator) checkIgnoredFields(kinds []engine.Kind) (errs []error) {
	baseline, ok := o.kinds.Settings.Baseline.(interface{ IgnoredFields() [][]string })
	if !ok || len(o.selections) > 0 {
		return nil
	}
	for _, path := range baseline.IgnoredFields() {
		hint, missing := "", len(kinds) > 0
		for _, kind := range kinds {
			if kind.New == nil { // the kind has an error of its own
				return nil
			}
			root := fieldtype.Go(reflect.TypeOf(kind.New()))
			if root == nil {
				return nil
			}
			_, unknown, suggestion := fieldtype.LookUp(root, path)
			missing = missing && unknown != ""
			if suggestion != "" {
				hint = fmt.Sprintf("; did you mean %s?", suggestion)
			}
		}
		if missing {
			errs = append(errs, fmt.Errorf("WithBaseline: IgnoringFields: no kind has the field %s: correct the path%s", validation.JoinFieldPath(path), hint))
		}
	}
	return errs
}

// changingFields are the fields that change with the writes of the operator, and what to do instead of handling their changes.
var changingFields = map[string]string{
	"metadata":                 "each write changes a field of the metadata, including those of the operator: name a field, such as metadata.labels",
	"metadata.resourceVersion": "each write changes this field, including those of the operator: use OnEvent to observe all writes",
	"metadata.managedFields":   "each write changes this field, including those of the operator: use OnEvent to observe all writes",
}

var deployment = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// constantFields are the fields that are the same in all states of an object, except at its deletion.
var constantFields = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.creationTimestamp", "metadata.generateName", "metadata.selfLink",
	"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
}

// contradictionsToSelector returns an error for each label filter that no object of the watch selector passes.
func (o *Operator) contradictionsToSelector(d *declaration) (errs []error) {
	if o.kinds.WatchSelector == nil {
		return nil
	}
	requirements, _ := o.kinds.WatchSelector.Requirements()
	for _, r := range requirements {
		where := fmt.Sprintf("Label(%q)", r.Key())
		for _, m := range d.checkedMatchers[where] {
			if required := matcherOf(r); match.Contradict(required, m) {
				errs = append(errs, fmt.Errorf("%s can never match: WithWatchSelector(%q) and %s exclude each other: remove one of them", where, o.kinds.WatchSelector, m.Description))
			}
		}
	}
	return errs
}

// matcherOf converts a requirement of a label selector to a matcher for the value of the label.
func matcherOf(r labels.Requirement) match.Matcher {
	m := match.Matcher{Opaque: r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan, Test: func(value any) bool {
		set := labels.Set{}
		if text, ok := value.(string); ok {
			set[r.Key()] = text
		}
		return r.Matches(set)
	}}
	for value := range r.Values() {
		m.Operands = append(m.Operands, match.Operand{Value: value})
	}
	return m
}
