// Package watching selects the kinds and the namespaces that an operator watches.
//
//	patterns, err := watching.ParsePatterns("*.example.com", "db")
//	served, failed, err := watching.Served(ctx, discoveryClient)
//	selected, ambiguous := watching.Select(patterns, served)
//
// Patterns have the syntax of kopf, and can contain globs. A pattern is a category, or a plural, singular, kind or short name, optionally with a version and a
// group. A name without wildcards that matches several kinds selects the kind of the core group, or none. A pattern without a version selects the preferred version.
//
// A [NamespacePattern] matches namespaces. A [NamespacedCache] caches the objects of some namespaces. The caller can add and remove namespaces while the cache
// runs.
//
// A [Client] reads kinds that have caches of their own from these caches. It reads all other kinds from a default cache or with the client of the manager.
package watching
