// Package kopf gives operators built on controller-runtime the handler style of kopf, the Kubernetes
// Operator Pythonic Framework: functions for what has happened to an object, whose progress is
// remembered on the object.
//
//	databases := kopf.For(&v1.Database{}).
//		OnCreate("provision", provision, kopf.Retries(10), kopf.Backoff(30*time.Second)).
//		OnUpdate("resize", resize).
//		OnDelete("drop", drop)
//
//	mgr.Add(kopf.New(mgr, databases))
//
// Start with [For], [Handler] and [New]. The packages that it stands on are useful by themselves, in a reconciler of your own: progress
// for remembered steps, daemons, peering, webhooks, conditions, children, and diff for structural diffs.
//
// # Flow
//
// The operator watches each kind through the manager's cache. For every object that may need
// attention it compares the last handled essence, which is kept on the object, with the present one,
// and concludes what has happened: it was created, updated, deleted, or the operator has started anew.
// Watch events only wake; what they say does not count, so that missed, merged and repeated events
// cannot matter. The handlers for the cause are called in the order of their registration, those that
// fail again later, by their own policy. When all are done, the essence that they were called for becomes
// the last handled one. An edit that comes in between is the next cause, for all handlers.
//
// Beside these handlers with progress there are some without: [Resource.OnEvent], which only watches,
// [Resource.OnReconcile], which makes things as they should be, and [IndexBy]. A [Resource.Daemon] runs for as long as an object is
// there, a [Resource.Timer] is called again and again. [Resource.Validate] and [Resource.Mutate] are called before an object
// is stored. [Label], [Field] and others filter; [Resource.When] and [Resource.Use] group. [WithPeering] has the operator step back for
// others.
//
// # Guarantees
//
// A handler that has returned nil, and whose success is written, is never called again for the same
// cause: not after a restart, not after an upgrade, not by a stale cache. If the process is killed,
// at most the work of the last 100 milliseconds is repeated (see [WithCheckpoint]).
//
// One object is handled by one goroutine at a time; its daemons and timers run beside it, each no more than once at a time. Handlers that
// delete, daemons and timers hold the object with a finalizer, which is on it before the first handler is called. Finalizers and other lists that somebody
// else has changed meanwhile are not overwritten; of a single field, the last writer wins.
//
// What is stored has the format of kopf: operators in Python and in Go can take over from each other.
//
// # Assumptions
//
// The operator may get, list, watch and patch the kinds, patch their status, and create and patch Events
// (of events.k8s.io). Only one operator with the same finalizer, progress and baseline handles an object:
// use leader election if there are several replicas.
//
// # Caveats
//
// Handlers should be idempotent all the same: between the end of a handler and the write of its
// success, a process can be killed.
//
// Change req.Object, or write the object with a client, not both in one attempt: what a client reads or
// writes into req.Object replaces what was changed there before. What is changed after is written, unless
// somebody else has written the object meanwhile; then there is a warning in the log instead. What a
// handler writes with a client comes back as an update; what it changes in req.Object does not.
//
// req.Object is the object as it is. After an edit in the middle of a cause it is newer than what req.Diff
// leads to, which is about the state that the cause has begun with.
//
// Filters decide whose business an object is, not only what is called for it: an object that no handler's
// filters match is not held, nor is its state remembered.
//
// A field of the status that a handler is for counts as essential, for all handlers of the kind.
//
// A handler that does not return keeps its object, and one of the workers of its kind (see [WithMaxConcurrentReconciles]), busy.
//
// The last handled essence is an annotation. Objects that are too large for that keep a digest of it
// instead: changes are noticed, but Old and Diff of an update are empty then.
//
// Kinds with Go types are compared through their types: fields that a type does not have do not count.
// If a new version of the operator has such a field in its type, the objects in which it is set are
// updates to it.
// To take over from an operator in Python, use [Unstructured], which compares all there is, as kopf does.
//
// # Errors
//
// Mistakes in a declaration are all told at once, by [Operator.CheckDeclaration] and by the start, before
// anything is touched. Errors of handlers are theirs to classify: [Temporary], [Permanent], [ErrorMode].
// Faults of the API are retried for each object by itself, with backoff, and never stop other objects.
package kopf
