package kopf

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// WithName sets the name of the kind's controller in logs and metrics. Default: the kind in lower case.
func WithName(name string) ResourceOption {
	return func(o *resourceOptions) {
		if name == "" {
			o.errs = append(o.errs, fmt.Errorf("WithName is empty: set a name, or leave it out for the default"))
		}
		o.name = name
	}
}

// WithControllerOptions sets options of the kind's controller. Options that you leave unset come from the manager's controller options or,
// if they are unset there too, from these defaults:
//
//   - RateLimiter: a per-object backoff that starts at 10 milliseconds and doubles up to two minutes
//   - MaxConcurrentReconciles: 16. An object is never reconciled twice at the same time.
//   - SkipNameValidation: true, because a process can run several operators one after the other
//   - LogConstructor: a logger with the operator, the kind and the object
//
// Reconciler, NeedLeaderElection and EnableWarmup must not be set, because the operator provides the reconciler and starts the controller.
func WithControllerOptions(opts controller.Options) ResourceOption {
	return func(o *resourceOptions) {
		if opts.Reconciler != nil {
			o.errs = append(o.errs, fmt.Errorf("WithControllerOptions sets Reconciler: remove it, because the operator provides the reconciler"))
		}
		if opts.MaxConcurrentReconciles < 0 {
			o.errs = append(o.errs, fmt.Errorf("WithControllerOptions: MaxConcurrentReconciles must not be negative, got %d: leave it out for the default",
				opts.MaxConcurrentReconciles))
		}
		if opts.NeedLeaderElection != nil || opts.EnableWarmup != nil {
			o.errs = append(o.errs, fmt.Errorf("WithControllerOptions sets NeedLeaderElection or EnableWarmup: remove them, "+
				"because the operator starts its controllers on the leader"))
		}
		o.controller = opts
	}
}

// WithPredicates adds predicates that a watch event must pass to trigger a reconcile. Deletions, and updates that mark the object for
// deletion, always trigger a reconcile, and so do all events of a kind with OnEvent handlers. If a predicate panics, the operator logs the
// panic and ignores the event. Default: no predicates.
func WithPredicates(predicates ...predicate.Predicate) ResourceOption {
	return func(o *resourceOptions) {
		if slices.Contains(predicates, nil) {
			o.errs = append(o.errs, fmt.Errorf("WithPredicates has a nil predicate: remove it"))
		}
		o.predicates = append(o.predicates, predicates...)
	}
}

// WithOwnChangesAsUpdates makes the operator call update handlers even when its own handlers, daemons and timers have changed the essence
// in Request.Object. An update handler that writes a different value in each call will then trigger itself forever: see [WithLoopGuard].
//
// By default, own changes don't count as updates, except in status fields with a handler ([Resource.OnField], or an update handler with
// [Field]) and in conditions with an [Resource.OnCondition] handler.
//
// kopf always behaves like this.
func WithOwnChangesAsUpdates() ResourceOption {
	return func(o *resourceOptions) { o.ownChanges = true }
}

// WithLoopGuard limits how often per minute an object's handlers may trigger themselves after each change by another client. Further
// calls are delayed, first by a second and then by twice as long each time, up to a minute. The delays stop once the handlers haven't
// triggered themselves for a minute. Changes by other clients are handled without delay, unless a reconcile handler keeps failing. Set a
// larger limit if your handlers take many short steps, each of which triggers the next one. 0 disables the guard. Default: 10.
//
// Handlers trigger themselves when they change fields with Request.Client, or fields of Request.Object whose changes count as updates (see
// [WithOwnChangesAsUpdates]). A handler that writes a different value in each call never stops. The operator reports such a loop in the
// log, in an Event with the reason HandlerLoop, in the metric kopf_held_objects and, for kinds with [WithConditions], in the condition
// HandlerLoop. The log, the Event and the condition name the handlers and the fields.
//
// Changes that daemons or timers make, and changes that handlers make with other clients or to other objects, count as changes by a
// different client.
func WithLoopGuard(limit int) ResourceOption {
	return func(o *resourceOptions) {
		if limit < 0 {
			o.errs = append(o.errs, fmt.Errorf("WithLoopGuard must not be negative, got %d: use 0 to disable it", limit))
		}
		o.loopLimit = limit
	}
}

// WithDigestOnly sets whether the operator stores a digest instead of the full last-handled configuration. It can then still see that an
// object has changed, but not how: for updates, [Request.OldKnown] returns false, and Old and Diff are empty. So handlers for a field or a
// computed value ([Resource.OnField], [OnChange]) are called for each update, and handlers with [filter.From] aren't called. Default: true
// for Secrets, because "kubectl describe" would show their data in an annotation; false for other kinds and for [Metadata].
//
// Pass true for other kinds with confidential fields. Pass false for Secrets only if your handlers need the old data. A digest doesn't hide
// short or guessable values from users who can read the annotations.
//
// kopf has no equivalent. If a Python operator takes over, it treats every object that has a digest as changed.
func WithDigestOnly(digestOnly bool) ResourceOption {
	return func(o *resourceOptions) { o.digestOnly = &digestOnly }
}

const defaultResults = "status"

// WithResults sets the field for the handlers' results, as a dotted path. Default: "status", so results go to status.<handler id>.
func WithResults(path string) ResourceOption {
	return func(o *resourceOptions) {
		fields := strings.Split(path, ".")
		if slices.Contains(fields, "") || slices.Contains([]string{"metadata", "kind", "apiVersion"}, fields[0]) {
			o.errs = append(o.errs, fmt.Errorf("WithResults(%q): results cannot be stored in this field: use one such as \"status\" or \"status.results\"", path))
		}
		o.results = path
	}
}
