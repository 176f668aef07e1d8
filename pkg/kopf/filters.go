package kopf

import (
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Label calls the handler only for objects with the label; with matchers, only if all of them pass.
//
// kopf: labels=.
func Label(key string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.takes("Label", handling, spying, leveling, daemon, timer, indexed, sub)
		d.Labels = append(d.Labels, d.key("Label", key, m))
		d.require(key, m)
	}
}

// Annotation calls the handler only for objects with the annotation; with matchers, only if all of them pass.
//
// kopf: annotations=.
func Annotation(key string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.takes("Annotation", handling, spying, leveling, daemon, timer, indexed, sub)
		d.Annotations = append(d.Annotations, d.key("Annotation", key, m))
	}
}

func (d *declaration) key(option, key string, m []filter.Matcher) match.KeyFilter {
	where := fmt.Sprintf("%s(%q)", option, key)
	if err := validation.QualifiedName(key); err != nil {
		d.mistakef("%s can never match: no object has such a key: %w", where, err)
	}
	d.judge(where, m)
	for _, one := range formsOf(m) {
		switch {
		case one.Err != nil: // judge has reported it
		case one.Side != match.Current:
			d.mistakef("%s: From and To are for fields: use Field(\"metadata...\")", where)
		default:
			d.checkTexts(where, option == "Label", one.Literals)
		}
	}
	if len(m) == 0 {
		m = []filter.Matcher{filter.Present}
	}
	return match.KeyFilter{Name: key, Tests: testsOf(m, match.Current)}
}

// checkTexts reports values that no label or annotation has.
func (d *declaration) checkTexts(where string, ofLabel bool, literals []match.Literal) {
	for _, l := range literals {
		value, isText := l.Value.(string)
		if !isText {
			d.mistakef("%s: %s can never match: the values of labels and annotations are strings: use %s", where, l, stringType.like(l.Value))
		} else if err := validation.LabelValue(value); ofLabel && err != nil {
			d.mistakef("%s can never match: no label has the value %q: %w", where, value, err)
		}
	}
}

// Field makes the handler one for a field, given by its dotted path, such as "spec.size"; a dot within a
// key is written as "\.", as in "metadata.labels.example\.com/tier". The path may lead anywhere in the
// object, also into the status: what it leads to counts as essential, for all handlers of the kind.
//
// Without matchers, the field has to be there, before or after. With matchers, all have to pass, for the
// value before or the one after. Handlers that are not called for causes (OnReconcile, daemons, timers, OnEvent, indexes) look at the
// present value only. A handler for updates is called if the field has changed, and then only
// if its From and To pass, too. Request.Diff and [Request.Field] are about the field. The handler's full
// id is "<id>/<path>", except for sub-handlers and indexes, which keep theirs.
//
// kopf: field=, value=, old=, new=.
func Field(path string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.takes("Field", handling, spying, leveling, daemon, timer, indexed, sub)
		where := fmt.Sprintf("Field(%q)", path)
		keys, err := parsePath(path)
		if err != nil {
			d.mistakef("%s: %w", where, err)
			return
		}
		if d.Criteria.Field == nil {
			d.Criteria.Field = &match.FieldFilter{Path: keys}
		} else if !reflect.DeepEqual(d.Criteria.Field.Path, keys) {
			d.mistakef("%s: it has another field already (%s): a handler is for one", where, strings.Join(d.Criteria.Field.Path, "."))
			return
		}
		d.judge(where, m)
		for _, one := range formsOf(m) {
			d.literals = append(d.literals, one.Literals...)
		}
		f := d.Criteria.Field
		f.Tests = append(f.Tests, testsOf(m, match.Current)...)
		f.From = append(f.From, testsOf(m, match.Before)...)
		f.To = append(f.To, testsOf(m, match.After)...)
		if len(f.From)+len(f.To) > 0 && !d.seesChanges() {
			d.mistakef("%s: From and To are for handlers that are told of changes (OnUpdate, OnField): this one has no old state", where)
		}
	}
}

// seesChanges reports whether a handler knows what was before. A sub-handler's parent decides.
func (d *declaration) seesChanges() bool {
	return d.role == sub || d.role == handling && (d.AnyReason || d.is(ReasonUpdate))
}

// OwnedBy calls the handler only for objects that are owned by one of the kind of the given object, which
// may be empty. With several, one of the kinds is enough.
func OwnedBy(owner client.Object) HandlerOption {
	return func(d *declaration) {
		d.takes("OwnedBy", handling, spying, leveling, daemon, timer, indexed, sub)
		if v := reflect.ValueOf(owner); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			d.mistakef("OwnedBy(nil): give it an object of the owners' kind, such as &appsv1.Deployment{}")
			return
		}
		d.owners = append(d.owners, owner)
	}
}

// judge tells what is wrong with the matchers of a key or a field, and what no object can pass, also
// together with those that an earlier option has named.
func (d *declaration) judge(where string, m []filter.Matcher) {
	if d.judged == nil {
		d.judged = map[string][]match.Matcher{}
	}
	for _, one := range formsOf(m) {
		if one.Err != nil {
			d.mistakef("%s: %w", where, one.Err)
			continue
		}
		for _, part := range one.Flatten() {
			for _, other := range d.judged[where] {
				if match.Contradict(part, other) {
					d.mistakef("%s can never match: %s and %s exclude each other", where, other.Description, part.Description)
				}
			}
			d.judged[where] = append(d.judged[where], part)
		}
	}
}

// formsOf returns the matchers in the form in which they can be inspected; a nil matcher becomes one with an error.
func formsOf(m []filter.Matcher) []match.Matcher { return filter.All(m...).Form().All }

// testsOf are the tests of the matchers for one side.
func testsOf(m []filter.Matcher, s match.Side) (tests []match.Test) {
	for _, one := range formsOf(m) {
		if one.Side == s {
			tests = append(tests, one.Test)
		}
	}
	return tests
}
