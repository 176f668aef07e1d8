package kopf

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/namespaces"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// WithNamespaces restricts the operator to namespaces that match one of the patterns. A pattern is a list of globs (*, ?, [..]), separated
// by commas. The first glob must match. After that, globs with an exclamation mark exclude names, and globs without one include names
// again. If the first glob has an exclamation mark, the pattern starts with an implicit "*".
//
//	kopf.WithNamespaces("team-a", "team-b")
//	kopf.WithNamespaces("team-*, !team-legacy")
//
// The operator opens a watch for each kind and namespace, so it needs no cluster-wide permissions if all patterns are plain names. With
// wildcards, it watches the Namespaces, starts to handle a matching one when it is created, and stops when it is deleted. If the operator
// isn't allowed to list Namespaces, it only handles those that are named without wildcards. The option doesn't affect cluster-scoped kinds.
//
// When the operator starts to handle a namespace, it resumes the objects in it, as after a restart. When it stops handling one, it waits
// for running handlers, stops daemons and timers with [daemons.ErrOutOfScope], and writes the outcomes. The objects keep their finalizers
// and their progress, so that a different operator can continue.
//
// The request's client only reads from these namespaces, because the operator then uses its own caches instead of the manager's (see
// [WithKindCaches]). [Operator.SetNamespaces] replaces the patterns at runtime. Default: the namespaces of the manager's cache, which are
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
// Namespace changes, the operator calls the function for all Namespaces, with copies. If there are patterns from [WithNamespaces], one of
// them must match as well. If the function panics, the operator logs the panic and doesn't handle the namespace.
//
//	selector := labels.SelectorFromSet(labels.Set{"team": "a"})
//	kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return selector.Matches(labels.Set(ns.Labels)) })
//
// The operator needs permission to list and watch Namespaces. Without it, the operator handles no namespace and isn't ready.
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

// SetNamespaces replaces the patterns of [WithNamespaces]. It doesn't wait until the change is complete, which can take a while because of
// running handlers in namespaces that no longer match. It returns an error and changes nothing if a pattern is invalid, or if the operator
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

// scoped returns the operator's namespaces. The first call adds an empty set.
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
