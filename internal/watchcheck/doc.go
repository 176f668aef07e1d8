// Package watchcheck detects watches that deliver no changes although their informers run: client-go only logs such faults.
//
//	checker := watchcheck.New(watchcheck.Options{Kind: "widget", GVK: gvk, Client: c, Informer: getInformer, Interval: time.Minute})
//	go checker.Run(ctx)
//	checker.Problems() // for health checks
//
// A [Checker] belongs to one kind. Once per interval and watch, it sends one request to the API server, in turn one of these:
//
//   - a watch of metadata from the version that the informer has received last. It ends after a second, and delivers only what the informer
//     misses;
//   - a watch of metadata that lists the objects of an unused name. The API server ends the listing with a bookmark, so the watch
//     delivers something unless streams are swallowed on their way.
//
// Both show whether the watch is still permitted and whether the kind is still served. A watch is silent if probes show for two intervals
// that it misses changes or that streams are swallowed, while the version of the informer does not move.
//
// # Caveats
//
// Informers that hide their resource version, such as those of a wrapped cache, are not checked. A watch that drops only some changes
// but delivers bookmarks appears healthy.
package watchcheck
