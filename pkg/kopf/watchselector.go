package kopf

import (
	"flag"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
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
		o.watchSelector = parsed
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

// selectObjects adds the selectors of the given kinds to cache options.
func (o *Operator) selectObjects(options *cache.Options, kinds ...engine.Kind) {
	options.ByObject = maps.Clone(options.ByObject)
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	options.NewInformer = o.ring.Informers(options.NewInformer, kinds)
	for _, kind := range kinds {
		selector := o.selectorOf(&kind)
		if selector == nil {
			continue
		}
		obj, byObject := kind.New(), cache.ByObject{}
		for other, present := range options.ByObject {
			if gvk, err := apiutil.GVKForObject(other, options.Scheme); err == nil && gvk == kind.GVK {
				obj, byObject = other, present
			}
		}
		if byObject.Label == nil {
			byObject.Label = options.DefaultLabelSelector
		}
		byObject.Label = bothSelectors(byObject.Label, selector)
		if namespaced, err := apiutil.IsObjectNamespaced(obj, options.Scheme, options.Mapper); err == nil && namespaced {
			byObject.Namespaces = selectInNamespaces(selector, byObject.Namespaces, options.DefaultNamespaces)
		}
		options.ByObject[obj] = byObject
	}
}

// selectorOf returns the label selector for the watch of a kind, or nil for all objects.
func (o *Operator) selectorOf(kind *engine.Kind) labels.Selector {
	ofShard := o.ring.Labels(kind)
	if ofShard == nil {
		return o.watchSelector
	}
	return bothSelectors(o.watchSelector, ofShard)
}

// selects returns a function that reports whether the watch of a kind delivers an object.
func (o *Operator) selects(kind *engine.Kind) func(client.Object) bool {
	byLabel, of := o.selectorOf(kind), *kind
	return func(obj client.Object) bool {
		return (byLabel == nil || byLabel.Matches(labels.Set(obj.GetLabels()))) && o.ring.Selects(&of, obj)
	}
}

// selectInNamespaces adds a selector to the selectors of single namespaces, because these have precedence over the selector of the kind.
func selectInNamespaces(selector labels.Selector, configs, defaults map[string]cache.Config) map[string]cache.Config {
	if configs == nil {
		configs = defaults
	}
	configs = maps.Clone(configs)
	for namespace, config := range configs {
		if config.LabelSelector != nil {
			config.LabelSelector = bothSelectors(config.LabelSelector, selector)
			configs[namespace] = config
		}
	}
	return configs
}

func bothSelectors(one, other labels.Selector) labels.Selector {
	if one == nil {
		return other
	}
	requirements, selectable := one.Requirements()
	if !selectable {
		return one
	}
	return other.DeepCopySelector().Add(requirements...)
}
