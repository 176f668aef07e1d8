package kopf

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/namespaces"
	"github.com/kopf-runtime/kopf-runtime/internal/watching"
)

// WithNamespaces restricts the operator to namespaces that match one of the patterns. A pattern is a list of globs (*, ?, [..]), separated
// by commas. The first glob must match. After it, a glob with an exclamation mark excludes names, and one without it includes names again.
// If the first glob has an exclamation mark, "*" is put before it.
//
//	kopf.WithNamespaces("team-a", "team-b")
//	kopf.WithNamespaces("team-*, !team-legacy")
//
// The operator has a watch for each kind and namespace, so it needs no permissions for the cluster if all patterns are plain names. With
// wildcards, it watches the Namespaces, starts to handle a matching one when it is created, and stops when it is deleted. If the operator
// may not list Namespaces, it handles only those that are named without wildcards. The option doesn't affect cluster-scoped kinds.
//
// When the operator starts to handle a namespace, it resumes the objects in it, as after a restart. When it stops handling one, it lets
// running handlers finish, stops daemons and timers with [daemons.ErrOutOfScope], and writes the outcomes. The objects keep their
// finalizers and their progress, so that another operator can continue.
//
// The cache of the request's client contains only these namespaces. Instead of the manager's cache, the operator uses its own caches, which
// [WithKindCaches] configures. [Operator.SetNamespaces] replaces the patterns. Default: the namespaces of the manager's cache, which are
// all namespaces by default.
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

// WithNamespaceFunc restricts the operator to namespaces for which a function returns true, for example because of their labels. Whenever a
// Namespace changes, the operator calls the function for all Namespaces, with copies. With [WithNamespaces], a pattern must match too. If
// the function panics, the operator logs the panic and doesn't handle the namespace.
//
//	selector := labels.SelectorFromSet(labels.Set{"team": "a"})
//	kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return selector.Matches(labels.Set(ns.Labels)) })
//
// The operator needs permission to list and watch Namespaces. Otherwise it handles no namespace and is not ready.
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

// SetNamespaces replaces the patterns of [WithNamespaces]. It returns before the change is complete, because in namespaces that no longer
// match, the operator first waits for running handlers. It returns an error and changes nothing if a pattern is invalid, or if the operator
// has neither WithNamespaces nor [WithNamespaceFunc]. It is safe for concurrent use.
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

// scoped returns the namespaces of the operator. The first call adds an empty set.
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
