// Package watching selects the kinds and the namespaces that an operator watches.
//
//	patterns, err := watching.ParsePatterns("*.example.com", "db")
//	served, failed, err := watching.Served(ctx, discoveryClient)
//	selected, ambiguous := watching.Select(patterns, served)
//
// Patterns are those of kopf, and globs: a plural, singular, kind or short name, optionally with a version and a group, or a category. A name without wildcards
// that matches several kinds selects the one of the core group, or none. A pattern without a version selects the preferred version.
//
// A [NamespacePattern] matches namespaces. A [NamespacedCache] caches the objects of some namespaces, which can change while it runs.
//
// A [Client] reads the kinds that have caches of their own from these caches, and all others as the client of the manager does.
package watching
