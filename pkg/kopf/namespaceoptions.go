package kopf

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/namespaces"
	"github.com/kopf-runtime/kopf-runtime/internal/watching"
)

// WithNamespaces restricts the operator to namespaces. The operator handles an object if one of the patterns matches its namespace. A pattern is a list of
// globs (*, ?, [..]), separated by commas. The first glob must match. A later glob with an exclamation mark excludes names, and a later glob without it
// includes names again. If the first glob has an exclamation mark, "*" precedes it.
//
//	kopf.WithNamespaces("team-a", "team-b")
//	kopf.WithNamespaces("team-*, !team-legacy")
//
// The operator has a watch for each kind and namespace. If all patterns are names, it therefore needs no permissions for the cluster. With wildcards, the
// operator watches the Namespaces. It starts to handle a matching namespace that is created, and stops when the namespace is deleted. If the operator may
// not list Namespaces, it handles only the namespaces that are named without wildcards. The option does not affect cluster-scoped kinds.
//
// When an operator starts to handle a namespace, it resumes the objects in the namespace, as after a restart. When an operator stops handling a namespace,
// running handlers finish. The operator stops daemons and timers with [daemons.ErrOutOfScope], and writes the outcomes. The objects keep their finalizers and
// their progress, so that another operator can continue.
//
// The cache of the request's client contains only these namespaces. The operator uses caches of its own, which [WithKindCaches] configures, instead of the
// cache of the manager. [Operator.SetNamespaces] replaces the patterns. Default: the namespaces of the manager's cache, which are all namespaces by default.
//
// Equivalent in kopf: --namespace.
func WithNamespaces(patterns ...string) Option {
	return optionFunc(func(o *Operator) {
		parsed, err := parseNamespaces(patterns)
		if err != nil {
			o.addError(fmt.Errorf("WithNamespaces: %w", err))
		}
		o.scoped().SetPatterns(parsed)
	})
}

// WithNamespaceFunc restricts the operator to namespaces for which a function returns true, for example by their labels. After each change of a Namespace,
// the operator calls the function for all Namespaces, with copies. With [WithNamespaces], a pattern must match as well. If the function panics, the
// operator logs the panic and does not handle the namespace.
//
//	selector := labels.SelectorFromSet(labels.Set{"team": "a"})
//	kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return selector.Matches(labels.Set(ns.Labels)) })
//
// The operator needs permission to list and watch Namespaces. Without this permission, it handles no namespace and is not ready.
//
// Equivalent in kopf: regular expressions for namespaces.
func WithNamespaceFunc(match func(namespace *corev1.Namespace) bool) Option {
	return optionFunc(func(o *Operator) {
		if match == nil {
			o.addError(errors.New("WithNamespaceFunc(nil): pass a function"))
		}
		o.scoped().SetFunc(match)
	})
}

// SetNamespaces replaces the patterns of [WithNamespaces]. It returns before the change is complete: in namespaces that no longer match, the operator first
// waits until the running handlers have finished. SetNamespaces returns an error and changes nothing if a pattern is invalid, or if the operator has
// neither WithNamespaces nor [WithNamespaceFunc]. It is safe for concurrent use.
func (o *Operator) SetNamespaces(patterns ...string) error {
	if o.kinds.Namespaces == nil {
		return errors.New("SetNamespaces: the operator handles the namespaces of the manager's cache: create it with WithNamespaces")
	}
	parsed, err := parseNamespaces(patterns)
	if err != nil {
		return fmt.Errorf("SetNamespaces: %w", err)
	}
	o.kinds.Namespaces.SetPatterns(parsed)
	return nil
}

// scoped returns the namespaces of the operator. Without the options, it adds an empty set.
func (o *Operator) scoped() *namespaces.Part {
	if o.kinds.Namespaces == nil {
		o.kinds.Namespaces = namespaces.New(o.mgr, &o.kinds.Engines)
	}
	return o.kinds.Namespaces
}

func parseNamespaces(texts []string) (patterns []watching.NamespacePattern, err error) {
	if len(texts) == 0 {
		return nil, errors.New("there are no patterns: pass at least one, such as \"team-a\" or \"team-*\"")
	}
	for _, text := range texts {
		pattern, invalid := watching.ParseNamespacePattern(text)
		if invalid != nil {
			err = errors.Join(err, invalid)
			continue
		}
		patterns = append(patterns, pattern)
	}
	return patterns, err
}
