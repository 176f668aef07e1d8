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

// PausedAnnotation is the annotation that pauses one object while its value is "true". The operator then stops the object's daemons and
// timers, and no longer calls its cause handlers, reconcile handlers and OnEventAbout handlers. Event handlers, index functions and
// admission handlers are still called.
//
// The pause lasts until the annotation is removed or set to "false". The stored progress doesn't change in the meantime. Afterwards, the
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
// [WithProgress] and [WithBaseline] still apply. You can switch an existing operator to a remote, because it reads an object's annotations
// if the remote has no data for it. Note that users who can change the stored progress can trigger or prevent handler calls.
//
// Writing progress takes an additional request, and so does loading each object's progress after a start. The operator writes the handlers'
// changes first and saves their progress afterwards, so if the process dies in between, the next one calls the handlers again. Default: the
// data is stored on the objects.
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

// WithFinalizer sets the finalizer that blocks the deletion of objects until their delete handlers, daemons and timers have finished. If
// two operators handle the same kind, they need different finalizers. Default: [DefaultFinalizer].
//
// A new finalizer should have the form "domain/name". Use a name without a slash only if the objects already have such a finalizer, because
// the API server accepts these with a warning for custom resources, and rejects them for most built-in kinds.
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

// WithCheckpoint sets how long an object's handlers may work in a reconcile before the operator writes their outcomes. It does so before it
// calls the next handler, and always at the end of the reconcile. If the process is killed, the next one repeats the calls whose outcomes
// weren't written. With 0, the operator writes after each handler. Default: 100 milliseconds.
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

// WithBackoff sets the backoff of handlers that have neither [Backoff] nor [BackoffFunc]. It doesn't apply to OnReconcile handlers. With 0,
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

// WithConsistencyTimeout limits how long the operator waits for its last write to an object to show up in the cache before it calls the
// object's handlers again. After the timeout, it reads the object from the API server instead. Other objects aren't delayed. The timeout
// must be positive. Default: 5 seconds.
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

// WithReconcilerWrapper wraps the reconciler of each kind, for example to add tracing or a limit. The wrapper must return the wrapped
// reconciler's results and errors unchanged, because they schedule the next reconcile. With several wrappers, the last one is the
// outermost.
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
// the operator handles the other kinds and namespaces. If all patterns of [WithNamespaces] are plain names, missing permissions prevent the
// start with [rights.RequireAll], but not with [rights.RequireWatch].
//
// The operator repeats the check at the interval of [WithWatchCheck], and logs permissions that were lost or granted in the meantime. Each
// check sends one small request for the cluster, one for each namespace where that isn't enough, and one for each missing permission. The
// metric kopf_missing_permissions shows what is missing. [Operator.Readyz] fails while the operator lacks a permission that it had in an
// earlier check. If the check itself fails, the operator starts without it.
func WithRightsCheck(mode rights.Check) Option {
	return optionFunc(func(o *Operator) {
		if mode < rights.RequireWatch || mode > rights.Skip {
			o.addError(fmt.Errorf("WithRightsCheck(%d): use rights.RequireWatch, rights.RequireAll, rights.Warn or rights.Skip", mode))
		}
		o.rights.mode = mode
	})
}
