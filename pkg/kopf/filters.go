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
		d.requireKind("Label", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		d.Labels = append(d.Labels, d.matchKey("Label", key, m))
		d.addRequirements(key, m)
	}
}

// Annotation calls the handler only for objects with the annotation; with matchers, only if all of them pass.
//
// kopf: annotations=.
func Annotation(key string, m ...filter.Matcher) HandlerOption {
	return func(d *declaration) {
		d.requireKind("Annotation", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		d.Annotations = append(d.Annotations, d.matchKey("Annotation", key, m))
	}
}

func (d *declaration) matchKey(option, key string, m []filter.Matcher) match.KeyFilter {
	where := fmt.Sprintf("%s(%q)", option, key)
	if err := validation.QualifiedName(key); err != nil {
		d.addErrorf("%s can never match: no object has such a key: %w", where, err)
	}
	d.validateMatchers(where, m)
	for _, one := range formsOf(m) {
		switch {
		case one.Err != nil: // judge has reported it
		case one.Side != match.Current:
			d.addErrorf("%s: From and To are for fields: use Field(\"metadata...\")", where)
		default:
			d.checkValues(where, option == "Label", one.Literals)
		}
	}
	if len(m) == 0 {
		m = []filter.Matcher{filter.Present}
	}
	return match.KeyFilter{Name: key, Tests: testsForSide(m, match.Current)}
}

// checkValues reports values that no label or annotation has.
func (d *declaration) checkValues(where string, ofLabel bool, literals []match.Literal) {
	for _, l := range literals {
		value, isText := l.Value.(string)
		if !isText {
			d.addErrorf("%s: %s can never match: the values of labels and annotations are strings: use %s", where, l, stringType.suggest(l.Value))
		} else if err := validation.LabelValue(value); ofLabel && err != nil {
			d.addErrorf("%s can never match: no label has the value %q: %w", where, value, err)
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
		d.requireKind("Field", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		where := fmt.Sprintf("Field(%q)", path)
		keys, err := parsePath(path)
		if err != nil {
			d.addErrorf("%s: %w", where, err)
			return
		}
		if d.Criteria.Field == nil {
			d.Criteria.Field = &match.FieldFilter{Path: keys}
		} else if !reflect.DeepEqual(d.Criteria.Field.Path, keys) {
			d.addErrorf("%s: it has another field already (%s): a handler is for one", where, strings.Join(d.Criteria.Field.Path, "."))
			return
		}
		d.validateMatchers(where, m)
		for _, one := range formsOf(m) {
			d.literals = append(d.literals, one.Literals...)
		}
		f := d.Criteria.Field
		f.Tests = append(f.Tests, testsForSide(m, match.Current)...)
		f.From = append(f.From, testsForSide(m, match.Before)...)
		f.To = append(f.To, testsForSide(m, match.After)...)
		if len(f.From)+len(f.To) > 0 && !d.hasOldState() {
			d.addErrorf("%s: From and To are for handlers that are told of changes (OnUpdate, OnField): this one has no old state", where)
		}
	}
}

// hasOldState reports whether a handler knows what was before. A sub-handler's parent decides.
func (d *declaration) hasOldState() bool {
	return d.handlerKind == subHandler || d.handlerKind == causeHandler && (d.AnyReason || d.hasReason(ReasonUpdate))
}

// OwnedBy calls the handler only for objects that are owned by one of the kind of the given object, which
// may be empty. With several, one of the kinds is enough.
func OwnedBy(owner client.Object) HandlerOption {
	return func(d *declaration) {
		d.requireKind("OwnedBy", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		if v := reflect.ValueOf(owner); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			d.addErrorf("OwnedBy(nil): give it an object of the owners' kind, such as &appsv1.Deployment{}")
			return
		}
		d.owners = append(d.owners, owner)
	}
}

// judge tells what is wrong with the matchers of a key or a field, and what no object can pass, also
// together with those that an earlier option has named.
func (d *declaration) validateMatchers(where string, m []filter.Matcher) {
	if d.checkedMatchers == nil {
		d.checkedMatchers = map[string][]match.Matcher{}
	}
	for _, one := range formsOf(m) {
		if one.Err != nil {
			d.addErrorf("%s: %w", where, one.Err)
			continue
		}
		for _, part := range one.Flatten() {
			for _, other := range d.checkedMatchers[where] {
				if match.Contradict(part, other) {
					d.addErrorf("%s can never match: %s and %s exclude each other", where, other.Description, part.Description)
				}
			}
			d.checkedMatchers[where] = append(d.checkedMatchers[where], part)
		}
	}
}

// formsOf returns the matchers in the form in which they can be inspected; a nil matcher becomes one with an error.
func formsOf(m []filter.Matcher) []match.Matcher { return filter.All(m...).Form().All }

// testsForSide are the tests of the matchers for one side.
func testsForSide(m []filter.Matcher, s match.Side) (tests []match.Test) {
	for _, one := range formsOf(m) {
		if one.Side == s {
			tests = append(tests, one.Test)
		}
	}
	return tests
}
