// Package kopf adds the handlers of kopf, the Kubernetes Operator Pythonic Framework, to operators built on controller-runtime. A handler
// is a function that the operator calls for an object, for example after the object was created, updated or deleted. The operator stores
// the progress of these handlers on the object.
//
//	databases := kopf.For(&v1.Database{}).
//		OnCreate("provision", provision, kopf.Retries(10), kopf.Backoff(30*time.Second)).
//		OnUpdate("resize", resize).
//		OnDelete("drop", drop)
//
//	if err := kopf.SetupWithManager(mgr, databases); err != nil {
//		return err
//	}
//
// Start with [For], [Handler] and [SetupWithManager]. The packages progress, daemons, peering, webhooks, conditions, children and diff in
// pkg/ also work in reconcilers without this package.
//
// # How it works
//
// By default, the operator watches each kind through the manager's cache. For each object, it compares the essence (the spec, labels,
// annotations and other fields that count for change detection) with the last-handled configuration, which is stored on the object. It also
// checks whether the object is being deleted. The result is a cause: a creation, an update, a deletion, or a resume after a restart of the
// operator. Watch events only trigger this comparison, so it doesn't matter if they are missed, merged or repeated.
//
// The operator calls the matching handlers in the order in which you added them, and retries each failed handler according to its own
// policy. All reconciles for one cause form a cycle. When all handlers have finished, the cycle ends and the essence becomes the
// last-handled configuration. If the object is edited during a cycle, all handlers finish the cycle first. The edit is then handled as a
// separate update.
//
// # Kinds of handlers
//
//   - Cause handlers ([Resource.OnCreate], [Resource.OnUpdate], [Resource.OnDelete], [Resource.OnResume], [Resource.OnField],
//     [Resource.OnCondition], [OnChange]) keep their progress on the object.
//   - Reconcile handlers ([Resource.OnReconcile]) compare the actual with the desired state, as reconcilers of controller-runtime do.
//   - Event handlers ([Resource.OnEvent]) are called for watch events. They keep no progress, and their changes are only written with
//     [WriteChanges].
//   - [Resource.OnEventAbout] handlers are called for Kubernetes Events about the object or about objects that it owns.
//   - Index functions ([IndexBy]) maintain an in-memory index of the objects of a kind.
//   - A daemon ([Resource.Daemon]) runs for as long as the object exists. A timer ([Resource.Timer]) is called repeatedly.
//   - Admission handlers ([Resource.Validate], [Resource.Mutate]) check or change an object before the API server stores it.
//
// [Label], [Annotation], [Field] and other options filter objects. [Resource.When] and [Resource.Use] apply to a group of handlers.
// [WithPeering] pauses the operator while another operator has a higher priority. [WhenServed] and [ForKinds] handle kinds that appear
// while the operator runs.
//
// # Guarantees
//
//   - Once a cause handler has returned nil and its success is stored, the operator won't call it again for the same cause, even after
//     restarts and upgrades, and even with a stale cache. If the process is killed, the next one repeats the calls whose outcomes aren't
//     stored (see [WithCheckpoint]).
//   - At most one goroutine at a time calls the cause, reconcile and event handlers of an object. Daemons, timers, index functions and
//     admission handlers run concurrently with them. Two calls of the same daemon or timer for an object never overlap.
//   - Delete handlers, daemons and timers block the deletion of the object with a finalizer. The operator adds it before it calls cause
//     handlers, reconcile handlers, daemons or timers.
//   - The operator doesn't overwrite concurrent changes to lists, such as finalizers. For a single field, the last write wins.
//   - The stored data has kopf's format, so an operator in Go can replace an operator in Python, and vice versa.
//
// # Requirements
//
// The operator needs permission to get, list, watch and patch objects of its kinds, to patch their status, and to create and patch Events
// of events.k8s.io. At most one active operator with the same finalizer, progress store and baseline may handle an object, so use leader
// election or [WithSharding] to run several replicas.
//
// # Limitations
//
//   - Handlers must be idempotent, because a process can be killed after a handler has returned and before its success is stored.
//   - In one attempt, either change req.Object or write the object with a client, because a client that reads or writes into req.Object
//     overwrites your earlier changes to it. Changes that you make afterwards are still written, unless another client has changed the
//     object in the meantime; the operator then logs a warning. Writing the essence with a client causes an update, but changing it in
//     req.Object doesn't by default (see [WithOwnChangesAsUpdates]).
//   - req.Object is the current state. If the object is edited during a cycle, req.Object is newer than the new side of req.Diff.
//   - If no handler matches an object, the operator neither adds its finalizer nor stores a last-handled configuration.
//   - If a handler has a [Field] in the status, this field becomes part of the essence for all handlers of the kind.
//   - A handler that doesn't return blocks its object and one worker of its kind (see [WithControllerOptions]).
//   - The last-handled configuration is an annotation. If an object is too large for it, the operator stores a digest instead. It still
//     detects changes, but Old and Diff of an update are empty.
//   - The operator converts objects to the Go type of the kind before it compares them, so it ignores fields that the type doesn't have.
//     When a new version of the type adds a field, each object with this field is handled as updated. Use [Unstructured] to compare all
//     fields, as kopf does.
//
// # Errors
//
// [Operator.CheckDeclaration] and [Operator.Start] return all mistakes in the declaration as one joined error. Start does so before it
// changes any object. A handler's error determines whether and when it is retried: see [Temporary], [Permanent] and [ErrorMode]. When a
// request to the API server fails, the operator retries the reconcile, with a separate backoff for each object.
package kopf
