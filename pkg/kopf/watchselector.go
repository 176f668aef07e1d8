package kopf

import (
	"errors"
	"flag"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WithWatchSelector restricts the operator to objects with matching labels, for all its kinds. The API server sends only matching objects.
// For example, an operator on a developer's machine can share a cluster with the deployed one:
//
//	kopf.New(mgr, databases, kopf.WithWatchSelector("developer=alice")) // handles only the objects of Alice
//	kopf.New(mgr, databases, kopf.WithWatchSelector("!developer"))      // handles all objects without the label
//
// The selector has the syntax of kubectl --selector. It also restricts which objects of these kinds the request's client finds in the
// cache, but related kinds without handlers aren't restricted. An object that no longer matches keeps its finalizer and its progress, so
// that an operator with a matching selector can continue. If there is no such operator, the finalizer will block the object's deletion. Use
// [Label] to restrict single handlers.
//
// The operator uses its own cache: see [WithKindCaches]. Default: all objects.
func WithWatchSelector(selector string) Option {
	return optionFunc(func(o *Operator) {
		parsed, err := labels.Parse(selector)
		switch {
		case err != nil:
			o.addError(fmt.Errorf("WithWatchSelector(%q): %w", selector, err))
		case parsed.Empty():
			o.addError(fmt.Errorf("WithWatchSelector(%q): the selector matches all objects: leave the option out, or name a label", selector))
		}
		o.kinds.WatchSelector = parsed
	})
}

// WatchOnly restricts a kind to objects with matching labels and fields, in addition to [WithWatchSelector]. The API server sends only
// matching objects, which saves memory. It decides which fields can be selected: those in the selectableFields of a CRD, and a few fields of
// built-in kinds, such as the phase of a Pod.
//
//	kopf.For(&corev1.Pod{}, kopf.WatchOnly(client.MatchingLabels{"app": "web"}, client.MatchingFields{"status.phase": "Running"}))
//
// An object that no longer matches isn't deleted, but out of the operator's scope, as with [WithWatchSelector]. The operator uses its own
// cache: see [WithKindCaches]. Default: all objects.
//
// Equivalent in kopf: settings.watching.label_selectors and field_selectors.
func WatchOnly(selectors ...client.ListOption) ResourceOption {
	return func(o *resourceOptions) {
		selector := (&client.ListOptions{}).ApplyOptions(selectors)
		only := client.ListOptions{LabelSelector: selector.LabelSelector, FieldSelector: selector.FieldSelector}
		switch {
		case !reflect.DeepEqual(*selector, only):
			o.errs = append(o.errs, errors.New("WatchOnly: use only options for labels and fields, such as client.MatchingLabels and client.MatchingFields"))
		case (only.LabelSelector == nil || only.LabelSelector.Empty()) && (only.FieldSelector == nil || only.FieldSelector.Empty()):
			o.errs = append(o.errs, errors.New("WatchOnly: the selectors match all objects: leave the option out, or name a label or a field"))
		}
		o.selector = &only
	}
}

// WatchSelectorFlag adds the flag --watch-selector to a flag set, and returns [WithWatchSelector] with its value. Without a value, the
// option has no effect. Parse the flags before [New].
//
//	watched := kopf.WatchSelectorFlag(flag.CommandLine)
//	flag.Parse()
//	kopf.New(mgr, databases, watched)
func WatchSelectorFlag(flags *flag.FlagSet) Option {
	value := flags.String("watch-selector", "", "handle only objects with matching labels, for example developer=alice or !developer")
	return optionFunc(func(o *Operator) {
		if *value != "" {
			WithWatchSelector(*value).applyTo(o)
		}
	})
}
