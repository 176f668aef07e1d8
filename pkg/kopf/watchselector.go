package kopf

import (
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
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
