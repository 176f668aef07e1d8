package kopf

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/watching"
)

// WithNamespaces restricts the operator to namespaces, by patterns. An object is handled if one of the patterns matches its namespace. A pattern is a list of
// globs (*, ?, [..]) that are separated by commas: the first one must match, those with an exclamation mark exclude names, and later ones without it
// include names again.
//
//	kopf.WithNamespaces("team-a", "team-b")
//	kopf.WithNamespaces("team-*, !team-legacy")
//
// The operator has a watch for each kind and namespace, so it needs no permissions for the cluster if all patterns are names. With wildcards, it watches the
// Namespaces: it begins to handle a namespace that appears, and stops when it disappears. If it may not list Namespaces, it handles those
// that are named without wildcards. Cluster-scoped kinds are handled as without this option.
//
// When an operator begins to handle a namespace, it resumes the objects in it, as after a restart. When it stops, running handlers finish, daemons and timers are
// stopped with [daemons.ErrOutOfScope], and the outcomes are written. The objects keep their finalizers and their progress for the next operator.
//
// The request's client reads only these namespaces from the cache. The caches are configured with [WithKindCaches]. The cache of the manager is not used.
// [Operator.SetNamespaces] replaces the patterns. Default: all namespaces, or those of the manager's cache.
//
// Equivalent in kopf: --namespace.
func WithNamespaces(patterns ...string) Option {
	return optionFunc(func(o *Operator) {
		parsed, err := parseNamespaces(patterns)
		if err != nil {
			o.addError(fmt.Errorf("WithNamespaces: %w", err))
		}
		o.scopedNamespaces().patterns = parsed
	})
}

// WithNamespaceFunc restricts the operator to namespaces for which a function returns true, for example by their labels. The operator calls the function for
// each change of a Namespace. With [WithNamespaces], a pattern must match as well. If the function panics, the namespace is not selected.
//
//	selector := labels.SelectorFromSet(labels.Set{"team": "a"})
//	kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return selector.Matches(labels.Set(ns.Labels)) })
//
// The operator needs permission to list and watch Namespaces. Equivalent in kopf: regular expressions for namespaces.
func WithNamespaceFunc(match func(namespace *corev1.Namespace) bool) Option {
	return optionFunc(func(o *Operator) {
		if match == nil {
			o.addError(errors.New("WithNamespaceFunc(nil): pass a function"))
		}
		o.scopedNamespaces().match = match
	})
}

// SetNamespaces replaces the patterns of [WithNamespaces]. It does not wait: namespaces that the operator handles and that no pattern matches are left after
// running handlers have finished. It returns an error for invalid patterns, and changes nothing in that case. It is safe for concurrent use.
func (o *Operator) SetNamespaces(patterns ...string) error {
	if o.namespaces == nil {
		return errors.New("SetNamespaces: the operator handles the namespaces of the manager's cache: create it with WithNamespaces")
	}
	parsed, err := parseNamespaces(patterns)
	if err != nil {
		return fmt.Errorf("SetNamespaces: %w", err)
	}
	n := o.namespaces
	n.mu.Lock()
	n.patterns = parsed
	n.mu.Unlock()
	n.notifyChanged()
	return nil
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
