// Package clusterevents selects Kubernetes Events for handlers of [kopf.Resource.OnEventAbout]: Events about an object, or about its dependents. This
// handler is called when a pod of a Database cannot be scheduled:
//
//	databases.OnEventAbout("scheduling", clusterevents.Selector{
//		About:   []client.Object{&corev1.Pod{}},
//		Through: []client.Object{&appsv1.StatefulSet{}},
//		Reasons: []string{"FailedScheduling"},
//	}, onFailedScheduling)
//
// # Guarantees
//
//   - The operator calls the handler for each new Event, and again when the Event has occurred again, at most once in an interval. Each call receives the
//     newest state of the Event.
//   - The operator ignores Events from the time before its start, or from a pause. With [Selector.Since], it handles such Events, unless they were handled
//     before.
//
// # Caveats
//
// Kubernetes loses Events: components drop them under load, and the API server deletes them after an hour by default. If more than 100 Events wait for a
// handler of one object, the operator drops the oldest one. Therefore do not rely on Events for correctness. Use [kopf.Resource.OnReconcile] for work that
// depends on the state of objects.
//
// [kopf.Resource.OnEventAbout]: https://pkg.go.dev/github.com/kopf-runtime/kopf-runtime/pkg/kopf#Resource.OnEventAbout
// [kopf.Resource.OnReconcile]: https://pkg.go.dev/github.com/kopf-runtime/kopf-runtime/pkg/kopf#Resource.OnReconcile
package clusterevents
