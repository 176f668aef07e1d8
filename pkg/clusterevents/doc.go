// Package clusterevents selects Kubernetes Events for handlers of [kopf.Resource.OnEventAbout]: Events about an object or its dependents.
// This handler is called when a pod of a Database can't be scheduled:
//
//	databases.OnEventAbout("scheduling", clusterevents.Selector{
//		About:   []client.Object{&corev1.Pod{}},
//		Through: []client.Object{&appsv1.StatefulSet{}},
//		Reasons: []string{"FailedScheduling"},
//	}, onFailedScheduling)
//
// # Guarantees
//
//   - The operator calls the handler for each new Event, and again when the Event recurs, at most once per interval. The handler always
//     gets the Event's newest state.
//   - Events from before the operator's start, or from a pause, are ignored. With [Selector.Since] they are handled, unless that has
//     already happened.
//
// # Caveats
//
// Kubernetes loses Events: components drop them under load, and the API server deletes them after an hour by default. If more than 100
// Events wait for a handler of one object, the operator drops the oldest. So don't rely on Events for correctness. Work that depends on the
// state of objects belongs in [kopf.Resource.OnReconcile].
//
// [kopf.Resource.OnEventAbout]: https://pkg.go.dev/github.com/kopf-runtime/kopf-runtime/pkg/kopf#Resource.OnEventAbout
// [kopf.Resource.OnReconcile]: https://pkg.go.dev/github.com/kopf-runtime/kopf-runtime/pkg/kopf#Resource.OnReconcile
package clusterevents
