package kopf

import (
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
)

// WithWatchSelector restricts the operator to objects with matching labels, for all its kinds. The API server sends only matching objects. With this option,
// an operator on the machine of a developer can share a cluster with the deployed operator:
//
//	kopf.New(mgr, databases, kopf.WithWatchSelector("developer=alice")) // handles only the objects of Alice
//	kopf.New(mgr, databases, kopf.WithWatchSelector("!developer"))      // handles all objects without the label
//
// The selector has the syntax of kubectl --selector. It also restricts which objects of these kinds the request's client reads from the cache. It does not
// restrict related kinds that have no handlers. An object that no longer matches keeps its finalizer and its progress. Another operator with a matching
// selector then continues. If no operator selects the object, the finalizer blocks its deletion. Use [Label] to restrict single handlers.
//
// The operator has a cache of its own: see [WithKindCaches]. Default: all objects.
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

// WatchSelectorFlag adds the flag --watch-selector to a flag set, and returns [WithWatchSelector] with the value of the flag. Without a value, the option has no
// effect. Parse the flags before [New].
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
