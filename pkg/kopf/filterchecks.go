package kopf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kopf-runtime/kopf-runtime/internal/declare"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// checkFilters returns the errors of filters that depend on the operator's options.
func checkFilters(rt *kinds.Runtime, kind engine.Kind, r resource) error {
	var errs []error
	for _, d := range r.declarations() {
		found := d.contradictionsTo("WithWatchSelector", rt.WatchSelector)
		if kind.Only != nil {
			found = append(found, d.contradictionsTo("WatchOnly", kind.Only.LabelSelector)...)
		}
		if d.handlerKind == causeHandler {
			found = append(found, d.checkOwnAnnotations(declare.StorageOf(&rt.Settings, kind))...)
			found = append(found, d.checkTracked(kind.GVK.GroupKind(), declare.StorageOf(&rt.Settings, kind), declare.EssenceOf(&rt.Settings, kind)))
		}
		for _, err := range found {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", kind.GVK.Kind, d.displayName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkOwnAnnotations returns an error for each filter on one of the operator's own annotations. It could pass, but changes to the
// annotation don't count.
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

// checkTracked returns an error if the operator never sees a change to the cause handler's field, or if each of its own writes changes the
// field.
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
	case path == "metadata.generation" && kind == deployment: // the API server increments it even when only an annotation changes
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

// changingFields maps the fields that change with each of the operator's writes to advice for the user.
var changingFields = map[string]string{
	"metadata":                 "each write changes a field of the metadata, including those of the operator: name a field, such as metadata.labels",
	"metadata.resourceVersion": "each write changes this field, including those of the operator: use OnEvent to observe all writes",
	"metadata.managedFields":   "each write changes this field, including those of the operator: use OnEvent to observe all writes",
}

var deployment = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// constantFields are the fields that never change, except when the object is deleted.
var constantFields = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.creationTimestamp", "metadata.generateName", "metadata.selfLink",
	"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
}

// contradictionsTo returns an error for each label filter that no object in the watch can pass.
func (d *declaration) contradictionsTo(option string, selector labels.Selector) (errs []error) {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		where := fmt.Sprintf("Label(%q)", r.Key())
		for _, m := range d.checkedMatchers[where] {
			if required := matcherOf(r); match.Contradict(required, m) {
				errs = append(errs, fmt.Errorf("%s can never match: %s(%q) and %s are mutually exclusive: remove one of them", where, option, selector, m.Description))
			}
		}
	}
	return errs
}

// matcherOf converts a label selector's requirement to a matcher for the label's value.
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
