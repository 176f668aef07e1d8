// Package watchcheck detects watches that deliver no changes although their informers run. client-go only logs these problems.
//
//	checker := watchcheck.New(watchcheck.Options{Kind: "widget", GVK: gvk, Client: c, Informer: getInformer, Interval: time.Minute})
//	go checker.Run(ctx)
//	checker.Problems() // for health checks
//
// A [Checker] belongs to one kind. For each watch, it sends one request per interval to the API server. It alternates between two probes:
//
//   - A watch of metadata from the last resource version of the informer. It ends after one second, and delivers only changes that the informer
//     has missed.
//   - A watch of metadata that lists the objects of an unused name. The API server ends the listing with a bookmark, so the watch
//     delivers an event unless a proxy holds back streams.
//
// Before the informer has a resource version, the checker lists one object instead.
//
// Both probes show whether the watch is permitted and whether the kind is served. A watch is silent if, for two intervals, probes find missed changes
// or empty streams while the resource version of the informer does not change.
//
// Informers that hide their resource version, such as those of a wrapped cache, are not checked. A watch that drops some changes but delivers
// bookmarks appears healthy.
package watchcheck
