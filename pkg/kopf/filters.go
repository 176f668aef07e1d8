package kopf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Label restricts the handler to objects with the label. With matchers, the value must pass all of them; see package filter.
//
// Equivalent in kopf: labels=.
func Label(key string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Label", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		d.Labels = append(d.Labels, d.matchKey("Label", key, m))
		d.addRequirements(key, m)
	}
}

// Annotation restricts the handler to objects with the annotation. With matchers, the value must pass all of them; see package filter.
//
// Equivalent in kopf: annotations=.
func Annotation(key string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Annotation", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		d.Annotations = append(d.Annotations, d.matchKey("Annotation", key, m))
	}
}

// matchKey checks a label or annotation filter and returns it in the engine's form.
func (d *declaration) matchKey(option, key string, m []filter.Matcher) match.KeyFilter {
	where := fmt.Sprintf("%s(%q)", option, key)
	if err := validation.QualifiedName(key); err != nil {
		d.addErrorf("%s can never match: the key is invalid: %w", where, err)
	}
	if len(m) == 0 {
		m = []filter.Matcher{filter.Present}
	}
	d.validateMatchers(where, m)
	for _, matcher := range formsOf(m) {
		switch {
		case matcher.Err != nil: // already reported by validateMatchers
		case matcher.Side != match.Current:
			d.addErrorf("%s: From and To are only for fields: use Field(\"metadata...\")", where)
		default:
			d.checkValues(where, option == "Label", matcher.Operands)
		}
	}
	return match.KeyFilter{Name: key, Tests: testsForSide(m, match.Current), Wanted: describe(m)}
}

// describe returns the descriptions of the matchers, separated by commas.
func describe(m []filter.Matcher) string {
	var texts []string
	for _, form := range formsOf(m) {
		texts = append(texts, form.Description)
	}
	return strings.Join(texts, ", ")
}

// checkValues adds an error for each value that isn't valid in a label or annotation.
func (d *declaration) checkValues(where string, isLabel bool, literals []match.Operand) {
	for _, l := range literals {
		value, isText := l.Value.(string)
		if !isText {
			d.addErrorf("%s: %s can never match: the values of labels and annotations are strings: use %s", where, l, validation.JSONString.Suggest(l.Value))
		} else if err := validation.LabelValue(value); isLabel && err != nil {
			d.addErrorf("%s can never match: %q is not a valid label value: %w", where, value, err)
		}
	}
}

// Field restricts the handler to one field. The path is dotted, such as "spec.size". Write a dot within a key as "\.", as in
// "metadata.labels.example\.com/tier". The field can be anywhere in the object, even in the status. It becomes part of the essence for all
// handlers of the kind.
//
// Without matchers, the field must exist before or after the change. With matchers, either the old or the new value must pass all of them.
// For handlers without a cause (OnReconcile, OnEvent, OnEventAbout, daemons, timers and indexes), only the current value counts. Update
// handlers and OnField handlers are only called if the field has changed, and if the matchers [filter.From] and [filter.To] pass.
//
// Request.Diff and [Request.Field] are relative to the field. The handler's full id is "<id>/<path>", except for sub-handlers and indexes.
//
// Equivalent in kopf: field=, value=, old=, new=.
func Field(path string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Field", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		where := fmt.Sprintf("Field(%q)", path)
		keys, err := validation.FieldPath(path)
		if err != nil {
			d.addErrorf("%s: %w", where, err)
			return
		}
		if d.Criteria.Field == nil {
			d.Criteria.Field = &match.FieldFilter{Path: keys}
		} else if !reflect.DeepEqual(d.Criteria.Field.Path, keys) {
			d.addErrorf("%s: the handler already has the field %s: add a handler for each field", where, strings.Join(d.Criteria.Field.Path, "."))
			return
		}
		d.validateMatchers(where, m)
		for _, matcher := range formsOf(m) {
			d.literals = append(d.literals, matcher.Operands...)
		}
		f := d.Criteria.Field
		f.Tests = append(f.Tests, testsForSide(m, match.Current)...)
		f.From = append(f.From, testsForSide(m, match.Before)...)
		f.To = append(f.To, testsForSide(m, match.After)...)
		f.Wanted = strings.Join(slices.DeleteFunc([]string{f.Wanted, describe(m)}, func(s string) bool { return s == "" }), ", ")
		if len(f.From)+len(f.To) > 0 && !d.hasOldState() {
			d.addErrorf("%s: From and To are only for OnUpdate and OnField: remove them, because this handler has no old state", where)
		}
	}
}

// hasOldState reports whether the handler gets an old state. It is true for all sub-handlers, because [Request.Sub] checks their parent.
func (d *declaration) hasOldState() bool {
	return d.handlerKind == subHandler || d.handlerKind == causeHandler && (d.AnyReason || d.hasReason(ReasonUpdate))
}

// OwnedBy restricts the handler to objects with an owner of this kind, in any version. Pass an empty object such as &appsv1.Deployment{}.
// If you repeat the option, an owner of one of the kinds is enough.
func OwnedBy(owner client.Object) HandlerOption {
	return func(d *declaration) {
		d.requireKind("OwnedBy", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		if v := reflect.ValueOf(owner); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			d.addErrorf("OwnedBy(nil): pass an empty object of the owner's kind, such as &appsv1.Deployment{}")
			return
		}
		d.owners = append(d.owners, owner)
	}
}

// validateMatchers adds errors for matchers that are invalid, that contradict each other, or that contradict an earlier option for the same
// key or field.
func (d *declaration) validateMatchers(where string, m []filter.Matcher) {
	if d.checkedMatchers == nil {
		d.checkedMatchers = map[string][]match.Matcher{}
	}
	for _, matcher := range formsOf(m) {
		if matcher.Err != nil {
			d.addErrorf("%s: %w", where, matcher.Err)
			continue
		}
		for _, part := range matcher.Conjuncts() {
			d.checkContradiction(where, part, d.checkedMatchers[where])
			d.checkedMatchers[where] = append(d.checkedMatchers[where], part)
		}
	}
}

// checkContradiction adds an error if no value can pass the matcher and all others. The error names as few matchers as possible.
func (d *declaration) checkContradiction(where string, m match.Matcher, others []match.Matcher) {
	if match.Contradict(m) {
		d.addErrorf("%s can never match: no value passes %s", where, m.Description)
		return
	}
	for _, other := range others {
		if match.Contradict(m, other) {
			d.addErrorf("%s can never match: %s and %s are mutually exclusive", where, other.Description, m.Description)
			return
		}
	}
	if all := append(slices.Clone(others), m); match.Contradict(all...) && !match.Contradict(others...) {
		texts := make([]string, len(all))
		for i, one := range all {
			texts[i] = one.Description
		}
		d.addErrorf("%s can never match: no value passes all of %s", where, strings.Join(texts, ", "))
	}
}

// formsOf returns the matchers in a form that we can inspect. A nil matcher becomes a matcher with an error.
func formsOf(m []filter.Matcher) []match.Matcher { return filter.All(m...).Form().All }

// testsForSide returns the tests of the matchers for one side of a change.
func testsForSide(m []filter.Matcher, s match.Side) (tests []match.Test) {
	for _, matcher := range formsOf(m) {
		if matcher.Side == s {
			tests = append(tests, matcher.Test)
		}
	}
	return tests
}

// addRequirements records the label matchers that the API server can evaluate in a label selector.
func (d *declaration) addRequirements(key string, m []filter.Matcher) {
	all := formsOf(m)
	if len(all) == 0 {
		all = append(all, filter.Present.Form())
	}
	for _, matcher := range all {
		var requirement *labels.Requirement
		var err error
		switch text, isText := matcher.Equal.(string); {
		case matcher.IsPresent():
			requirement, err = labels.NewRequirement(key, selection.Exists, nil)
		case matcher.IsAbsent():
			requirement, err = labels.NewRequirement(key, selection.DoesNotExist, nil)
		case matcher.HasEqual && isText:
			requirement, err = labels.NewRequirement(key, selection.Equals, []string{text})
		default:
			continue
		}
		if err == nil {
			d.requirements = append(d.requirements, *requirement)
		}
	}
}
