package kopf

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// A ResourceOption is an option of [For].
type ResourceOption func(*resourceOptions)

const defaultConcurrency = 16

// WithName names the kind's controller in logs and metrics. Default: the kind in lower case.
func WithName(name string) ResourceOption {
	return func(o *resourceOptions) {
		if name == "" {
			o.errs = append(o.errs, fmt.Errorf("WithName is empty: leave it out for the default"))
		}
		o.name = name
	}
}

// WithMaxConcurrentReconciles sets how many objects are handled at the same time; one object is never handled
// twice at a time. Default: MaxConcurrentReconciles of [WithControllerOptions], else that of the manager's Controller
// options, else 16.
func WithMaxConcurrentReconciles(n int) ResourceOption {
	return func(o *resourceOptions) {
		if n < 1 {
			o.errs = append(o.errs, fmt.Errorf("WithMaxConcurrentReconciles(%d): at least one object must be handled at a time", n))
		}
		o.concurrency = n
	}
}

// WithControllerOptions sets options of the underlying controller; those unset come from the
// manager. What neither sets is: a RateLimiter for each object by itself, from 10 milliseconds, doubled, to two minutes;
// MaxConcurrentReconciles of 16; SkipNameValidation, as operators may come and go within a process; and a
// LogConstructor that names the operator, the kind and the object. The Reconciler must not be set: the handlers take its
// place; nor NeedLeaderElection and EnableWarmup: the operator starts its controllers itself.
func WithControllerOptions(opts controller.Options) ResourceOption {
	return func(o *resourceOptions) {
		if opts.Reconciler != nil {
			o.errs = append(o.errs, fmt.Errorf("WithControllerOptions sets a Reconciler: leave it out, the handlers take its place"))
		}
		if opts.MaxConcurrentReconciles < 0 {
			o.errs = append(o.errs, fmt.Errorf("WithControllerOptions: MaxConcurrentReconciles must be positive, got %d: leave it out for the default",
				opts.MaxConcurrentReconciles))
		}
		if opts.NeedLeaderElection != nil || opts.EnableWarmup != nil {
			o.errs = append(o.errs, fmt.Errorf("WithControllerOptions sets NeedLeaderElection or EnableWarmup: leave them out, "+
				"the operator starts its controllers itself, on the leader"))
		}
		o.controller = opts
	}
}

// WithPredicates keeps events that do not pass from waking the operator for an object. Deletions
// always do. Default: everything wakes.
func WithPredicates(predicates ...predicate.Predicate) ResourceOption {
	return func(o *resourceOptions) {
		if slices.Contains(predicates, nil) {
			o.errs = append(o.errs, fmt.Errorf("WithPredicates has a nil predicate: leave it out"))
		}
		o.predicates = append(o.predicates, predicates...)
	}
}

// WithOwnChangesAsUpdates makes an update of every change that the operator's own handlers, daemons and timers make in the
// essence of an object by changing Request.Object, as if another client had made it: the update handlers are called
// for it in the next cycle. A handler that changes the object each time it is called then calls itself forever.
//
// Default: own changes are no updates, with two exceptions: fields of the status that a handler watches ([Resource.OnField], or
// [Field] of an update handler), and conditions that a handler watches ([Resource.OnCondition]).
//
// kopf: always so; it has no setting.
func WithOwnChangesAsUpdates() ResourceOption {
	return func(o *resourceOptions) { o.ownChanges = true }
}

const defaultResults = "status"

// WithResults sets the field below which the results of handlers are kept, as a dotted path.
// Default: "status", so that a result stands in status.<handler id>.
func WithResults(path string) ResourceOption {
	return func(o *resourceOptions) {
		fields := strings.Split(path, ".")
		if slices.Contains(fields, "") || slices.Contains([]string{"metadata", "kind", "apiVersion"}, fields[0]) {
			o.errs = append(o.errs, fmt.Errorf("WithResults(%q): name a field such as \"status\" or \"status.results\"", path))
		}
		o.results = path
	}
}
