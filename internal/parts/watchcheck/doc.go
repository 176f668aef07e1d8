// Package watchcheck detects watches that deliver no changes although their informers are running. client-go merely logs such problems.
//
//	checker := watchcheck.New(watchcheck.Options{Kind: "widget", GVK: gvk, Client: c, Informer: getInformer, Interval: time.Minute})
//	go checker.Run(ctx)
//	checker.Problems() // for health checks
//
// A [Checker] is for one kind. For each watch, it sends one request per interval to the API server, alternating between two probes:
//
//   - A metadata watch from the informer's last resource version. It lasts one second, and delivers only changes that the informer has
//     missed.
//   - A metadata watch that lists the objects with an unused name. The API server finishes the listing with a bookmark, so the watch
//     delivers an event unless a proxy holds back streams.
//
// As long as the informer has no resource version, the checker lists one object instead.
//
// Both probes show whether the watch is permitted and the kind is served. A watch counts as silent if, for two intervals, probes find
// missed changes or empty streams while the informer's resource version doesn't change.
//
// Informers that hide their resource version, such as those of a wrapped cache, are not checked. A watch that drops some changes but
// delivers bookmarks looks healthy.
package watchcheck
