// Package watching selects the kinds and namespaces that an operator watches.
//
//	patterns, err := watching.ParsePatterns("*.example.com", "db")
//	served, failed, err := watching.Served(ctx, discoveryClient)
//	selected, ambiguous := watching.Select(patterns, served)
//
// Patterns have kopf's syntax and can contain globs. A pattern is a category, or a plural, singular, kind or short name, optionally with a
// version and a group. If a name without wildcards matches several kinds, it selects the one in the core group, or nothing if that doesn't
// decide it. Without a version, it selects the preferred one.
//
// A [NamespacePattern] matches namespaces. A [NamespacedCache] caches the objects of some namespaces, which can be added and removed while
// it runs.
//
// A [Client] reads kinds with their own caches from these caches, and all other kinds from a default cache or with the manager's client.
package watching
