// Package clusterevents selects the Kubernetes Events to which handlers of [kopf.Resource.OnEventAbout] react: Events about an object, or about objects
// that it owns. This handler is called when a pod of a Database cannot be scheduled:
//
//	databases.OnEventAbout("scheduling", clusterevents.Selector{
//		About:   []client.Object{&corev1.Pod{}},
//		Through: []client.Object{&appsv1.StatefulSet{}},
//		Reasons: []string{"FailedScheduling"},
//	}, onFailedScheduling)
//
// # Guarantees
//
//   - The handler is called for each new Event about an object that the operator has observed, and again when the Event has occurred again, at most once in
//     an interval. Each call receives the newest state of the Event.
//   - Events from the time before the start, or from a pause, are ignored. With Since, they are handled, except for those that were handled before.
//
// # Caveats
//
// Kubernetes loses Events: components drop them under load, and the API server deletes them after an hour by default. Do not rely on them for
// correctness. The state of the cluster is in its objects, and handlers of [kopf.Resource.OnReconcile] read it.
//
// [kopf.Resource.OnEventAbout]: https://pkg.go.dev/github.com/kopf-runtime/kopf-runtime/pkg/kopf#Resource.OnEventAbout
// [kopf.Resource.OnReconcile]: https://pkg.go.dev/github.com/kopf-runtime/kopf-runtime/pkg/kopf#Resource.OnReconcile
package clusterevents
