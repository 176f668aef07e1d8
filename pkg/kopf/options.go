package kopf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/declare"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// DefaultFinalizer is the finalizer of kopf.
const DefaultFinalizer = "kopf.zalando.org/KopfFinalizerMarker"

// PausedAnnotation is the annotation that pauses one object while its value is "true". The operator then calls no cause handlers, reconcile
// handlers or OnEventAbout handlers for the object, and stops its daemons and timers. It still calls event handlers, index functions and
// admission handlers.
//
// The pause lasts until the annotation is removed or set to "false". The stored progress doesn't change in the meantime, and afterwards the
// operator handles everything that has changed as one update. A paused object that is being deleted keeps its finalizer. For kinds with
// [WithConditions], the operator reports the pause as the condition Paused. If the value is neither true nor false, the operator logs a
// message and ignores the annotation.
const PausedAnnotation = engine.PausedAnnotation

const defaultCheckpoint = 100 * time.Millisecond

// WithProgress sets where the progress of handlers is stored. Default: [progress.Smart].
//
// Equivalent in kopf: settings.persistence.progress_storage.
func WithProgress(store progress.Store) Option {
	return optionFunc(func(o *Operator) {
		if store == nil {
			o.addError(errors.New("WithProgress(nil): pass a store, or leave it out for the default"))
		}
		if checker, ok := store.(progress.Checker); ok {
			if err := checker.Check(); err != nil {
				o.addError(fmt.Errorf("WithProgress: %w", err))
			}
		}
		o.kinds.Settings.Store = store
	})
}

// WithBaseline sets where the last-handled configuration is stored. Default: [progress.AnnotationBaseline] with kopf's annotation.
//
// Equivalent in kopf: settings.persistence.diffbase_storage.
func WithBaseline(baseline progress.Baseline) Option {
	return optionFunc(func(o *Operator) {
		if baseline == nil {
			o.addError(errors.New("WithBaseline(nil): pass a baseline, or leave it out for the default"))
		}
		if checker, ok := baseline.(progress.Checker); ok {
			if err := checker.Check(); err != nil {
				o.addError(fmt.Errorf("WithBaseline: %w", err))
			}
		}
		o.kinds.Settings.Baseline = baseline
	})
}

// WithRemote stores the progress and the last-handled configuration outside of the objects, for example in Secrets
// ([progress.SideObjects]). The operator then adds only the finalizer to the objects, and no annotations. The formats and limits of
// [WithProgress] and [WithBaseline] still apply. You can switch an existing operator to a remote, because the operator reads an object's
// annotations if the remote has no data for it. Users who can change the stored progress can cause or prevent calls of handlers.
//
// Each write of progress needs one more request, and after a start, loading the progress takes one request per object. The operator writes
// the handlers' changes first and saves their progress afterwards, so if the process dies in between, the next one calls the handlers
// again. Default: the data is stored on the objects.
func WithRemote(remote progress.Remote) Option {
	return optionFunc(func(o *Operator) {
		if remote == nil {
			o.addError(errors.New("WithRemote(nil): pass a remote, or remove the option"))
		}
		if checker, ok := remote.(progress.Checker); ok {
			if err := checker.Check(); err != nil {
				o.addError(fmt.Errorf("WithRemote: %w", err))
			}
		}
		o.kinds.Settings.Remote = remote
	})
}

// WithFinalizer sets the finalizer that blocks the deletion of objects until their delete handlers, daemons and timers have finished. Two
// operators for one kind need different finalizers. Default: [DefaultFinalizer].
//
// A new finalizer should have the form "domain/name". Names without a slash are only for operators whose objects already have such a
// finalizer: the API server accepts them for custom resources, with a warning, and rejects them for most built-in kinds.
//
// Equivalent in kopf: settings.persistence.finalizer.
func WithFinalizer(name string) Option {
	return optionFunc(func(o *Operator) {
		err := validation.QualifiedName(name)
		if slices.Contains([]string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes)}, name) {
			err = errors.New("it belongs to Kubernetes")
		}
		if err != nil {
			o.addError(fmt.Errorf("WithFinalizer(%q): the name is not valid: %w; %s", name, err, declare.FinalizerForm))
		}
		o.kinds.Settings.Finalizer = name
	})
}

// WithLifecycle sets which of the due handlers the operator calls in one reconcile. Default: [progress.AllAtOnce].
//
// Equivalent in kopf: lifecycle=.
func WithLifecycle(lifecycle progress.Lifecycle) Option {
	return optionFunc(func(o *Operator) {
		if lifecycle == nil {
			o.addError(errors.New("WithLifecycle(nil): pass a lifecycle, or leave it out for the default"))
			return
		}
		o.kinds.Settings.Lifecycle = func(due []string, record func(id string) progress.Record) []string {
			return guard.Value("WithLifecycle", func() []string { return lifecycle(due, record) })
		}
	})
}

// WithCheckpoint sets how long handlers may work before the operator writes their outcomes. It then writes them before it calls the next
// handler of the object. Outcomes are also written at the end of each reconcile. If the process is killed, the next one repeats the calls
// whose outcomes were not written. With 0, the operator writes after each handler. Default: 100 milliseconds.
func WithCheckpoint(work time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if work < 0 {
			o.addError(fmt.Errorf("WithCheckpoint must not be negative, got %s: use 0 to write after each handler", work))
		}
		if err := validation.DurationUnit(work); err != nil {
			o.addError(fmt.Errorf("WithCheckpoint is %w", err))
		}
		o.kinds.Settings.Checkpoint = work
	})
}

// WithBackoff sets the [Backoff] of handlers that have neither Backoff nor [BackoffFunc]. It doesn't apply to OnReconcile handlers. With 0,
// handlers are retried immediately. Default: one minute.
//
// Equivalent in kopf: settings.execution.default_backoff.
func WithBackoff(delay time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if delay < 0 {
			o.addError(fmt.Errorf("WithBackoff must not be negative, got %s: use 0 to retry immediately", delay))
		}
		if err := validation.DurationUnit(delay); err != nil {
			o.addError(fmt.Errorf("WithBackoff is %w", err))
		}
		o.kinds.Settings.Backoff = &delay
	})
}

// WithConsistencyTimeout sets how long the operator waits for its last write to an object to show up in the cache before it calls handlers
// for the object again. After the timeout, it reads the object from the API server instead. Other objects don't wait. The timeout must be
// positive. Default: 5 seconds.
//
// Equivalent in kopf: settings.persistence.consistency_timeout.
func WithConsistencyTimeout(timeout time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if timeout <= 0 {
			o.addError(fmt.Errorf("WithConsistencyTimeout must be positive, got %s: leave it out for the default", timeout))
		}
		if err := validation.DurationUnit(timeout); err != nil {
			o.addError(fmt.Errorf("WithConsistencyTimeout is %w", err))
		}
		o.kinds.Settings.ConsistencyTimeout = timeout
	})
}

// WithReconcilerWrapper wraps the reconciler of each kind, for example to add tracing or a limit. The wrapper must return the results and errors
// of the wrapped reconciler unchanged, because they schedule the next reconcile. With several wrappers, the last one is the outermost.
func WithReconcilerWrapper(wrap func(reconcile.Reconciler) reconcile.Reconciler) Option {
	return optionFunc(func(o *Operator) {
		if wrap == nil {
			o.addError(errors.New("WithReconcilerWrapper(nil): pass a function or remove the option"))
			return
		}
		o.kinds.Wrappers = append(o.kinds.Wrappers, wrap)
	})
}

// WithRightsCheck sets what the operator does if it lacks permissions when it starts. It asks the API server which permissions it has, and
// compares them with those that [WriteRights] writes. If the start fails, the error contains all missing rules. Default:
// [rights.RequireWatch].
//
// For kinds of [WhenServed] and [ForKinds], and for namespaces that patterns or a function select, missing permissions are only logged, and
// the operator handles the other kinds and namespaces. If all patterns of [WithNamespaces] are plain names, missing permissions make the
// start fail with [rights.RequireAll], but not with [rights.RequireWatch].
//
// The operator repeats the check at the interval of [WithWatchCheck], and logs permissions that are lost or granted later. Each check sends
// one small request for the cluster, one for each namespace for which that request is not sufficient, and one for each missing permission.
// The metric kopf_missing_permissions shows what is missing. [Operator.Readyz] fails while the operator lacks a permission that it had in
// an earlier check. If the check itself fails, the operator starts without it.
func WithRightsCheck(mode rights.Check) Option {
	return optionFunc(func(o *Operator) {
		if mode < rights.RequireWatch || mode > rights.Skip {
			o.addError(fmt.Errorf("WithRightsCheck(%d): use rights.RequireWatch, rights.RequireAll, rights.Warn or rights.Skip", mode))
		}
		o.rights.mode = mode
	})
}
