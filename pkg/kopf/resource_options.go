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

// WithControllerOptions sets options of the kind's controller. Options that you don't set are taken from the manager's controller options.
// If they are unset there too, these defaults apply:
//
//   - RateLimiter: a backoff for each object, from 10 milliseconds, doubled up to two minutes
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

// WithPredicates adds predicates that an event must pass to trigger a reconcile. Deletions, and updates that start a deletion, trigger a
// reconcile regardless of the predicates, and so do all events of a kind with OnEvent handlers. If a predicate panics, the operator logs
// the panic and the event is rejected. Default: no predicates.
func WithPredicates(predicates ...predicate.Predicate) ResourceOption {
	return func(o *resourceOptions) {
		if slices.Contains(predicates, nil) {
			o.errs = append(o.errs, fmt.Errorf("WithPredicates has a nil predicate: remove it"))
		}
		o.predicates = append(o.predicates, predicates...)
	}
}

// WithOwnChangesAsUpdates makes the operator call update handlers even for changes that its own handlers, daemons and timers make to the
// essence in Request.Object. An update handler that makes a different change in each call will then trigger itself endlessly: see
// [WithLoopGuard].
//
// By default, own changes are not updates, with two exceptions: status fields that have a handler ([Resource.OnField], or [Field] of an
// update handler), and conditions that have one ([Resource.OnCondition]).
//
// Equivalent in kopf: the only behaviour.
func WithOwnChangesAsUpdates() ResourceOption {
	return func(o *resourceOptions) { o.ownChanges = true }
}

// WithLoopGuard sets how many calls per minute the handlers of an object may cause themselves after each change by another client. Further
// calls are delayed: the first by a second, and each later one by twice the last delay, up to a minute. The delays stop when the handlers
// have caused no call for a minute. Changes by other clients are handled without delay. Set a larger limit for handlers that take many
// short steps, each of which triggers the next one. With 0, calls are neither delayed nor reported. Default: 10.
//
// Handlers cause their own calls if they change fields with Request.Client, or fields of Request.Object whose changes are updates: see
// [WithOwnChangesAsUpdates]. If a handler writes a different value in each call, this never ends. The operator reports such a loop with a
// log message, an Event with the reason HandlerLoop, the metric kopf_held_objects and, for kinds with [WithConditions], the condition
// HandlerLoop. The log, the Event and the condition name the handlers and the fields.
//
// Changes by daemons and timers, and changes that handlers make with other clients or to other objects, count as changes by another client.
func WithLoopGuard(limit int) ResourceOption {
	return func(o *resourceOptions) {
		if limit < 0 {
			o.errs = append(o.errs, fmt.Errorf("WithLoopGuard must not be negative, got %d: use 0 to disable it", limit))
		}
		o.loopLimit = limit
	}
}

// WithDigestOnly sets whether the operator stores only a digest of the last-handled configuration instead of its text, which has all fields
// of the essence. With a digest, the operator still sees that an object has changed, but not how: [Request.OldKnown] returns false for
// updates, and Old and Diff are empty. So handlers for a field or a computed value ([Resource.OnField], [OnChange]) are called for each
// update, and handlers with [From] are not called. Default: true for Secrets, because "kubectl describe" would show their text in an
// annotation; false for other kinds and for [Metadata].
//
// Use WithDigestOnly(true) for other kinds with confidential fields, and WithDigestOnly(false) for Secrets only if the handlers need the
// old data. A digest doesn't hide short or guessable values from users who can read the annotations.
//
// kopf has no equivalent. If an operator in Python takes over, it handles all objects with a digest as changed.
func WithDigestOnly(digestOnly bool) ResourceOption {
	return func(o *resourceOptions) { o.digestOnly = &digestOnly }
}

const defaultResults = "status"

// WithResults sets the field where the results of handlers are stored, as a dotted path. Default: "status", so results go to
// status.<handler id>.
func WithResults(path string) ResourceOption {
	return func(o *resourceOptions) {
		fields := strings.Split(path, ".")
		if slices.Contains(fields, "") || slices.Contains([]string{"metadata", "kind", "apiVersion"}, fields[0]) {
			o.errs = append(o.errs, fmt.Errorf("WithResults(%q): results cannot be stored in this field: use one such as \"status\" or \"status.results\"", path))
		}
		o.results = path
	}
}
