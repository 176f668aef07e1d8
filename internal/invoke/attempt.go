package invoke

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Invocation describes one attempt of a handler.
type Invocation struct {
	// Kind is the controller's name, a label of the metrics.
	Kind string
	ID   string
	// MetricLabel replaces the id in metrics, for handlers with many ids. Default: ID.
	MetricLabel string
	Reason      string
	Policy      progress.Policy
	// Record is the stored progress before this attempt.
	Record progress.Record
	// Func invokes the handler.
	Func func(ctx context.Context) error
	// AdjustOutcome changes the handler's outcome, for example while its sub-handlers haven't finished. It is optional.
	AdjustOutcome func(progress.Outcome) progress.Outcome
	// Warnings logs probable mistakes in the handler. It is optional.
	Warnings *Warnings
	// QuietSuccess logs success at V(1).
	QuietSuccess bool
}

// HandlerAttempt is one attempt of a registered handler for one state of an object.
type HandlerAttempt struct {
	// Kind is the controller's name, a label of the metrics.
	Kind    string
	ID      string
	Handler *Handler
	View    *View
	// Record is the progress before this attempt.
	Record progress.Record
	// Once disables retries, regardless of the handler's policy.
	Once bool
	// QuietSuccess logs success at V(1).
	QuietSuccess bool
	// Prepare completes the request. It is optional.
	Prepare func(*Request)
	// Accept processes the changes that the handler has made in its request. failed is the handler's error. If Accept returns an error, the
	// attempt fails, too. Accept is optional.
	Accept func(req *Request, failed error) error
	// AdjustOutcome changes the handler's outcome, for example while its sub-handlers haven't finished. It is optional.
	AdjustOutcome func(context.Context, progress.Outcome) progress.Outcome
	// Restrict returns the context for the attempt, and a function to call after it. Restrict is optional.
	Restrict func(context.Context) (context.Context, func())
	// Hooks are called before and after the attempt. They are optional.
	Hooks *Hooks
	// CycleStarted is when the cycle began, for the hooks. It is zero for handlers without a cycle.
	CycleStarted time.Time
}

// Run makes the attempt. Like [Attempt], it logs the outcome and records metrics.
func (a HandlerAttempt) Run(ctx context.Context) progress.Outcome {
	if a.Hooks == nil {
		return a.run(ctx)
	}
	ctx, end := a.Hooks.Begin(ctx, a.View.Object, AttemptInfo{
		Handler: a.ID, Reason: a.View.Reason, Attempt: a.Record.Attempt(), CycleStarted: a.CycleStarted,
	})
	defer end(exited)
	outcome := a.run(ctx)
	end(outcome)
	return outcome
}

func (a HandlerAttempt) run(ctx context.Context) progress.Outcome {
	call := Invocation{
		Kind: a.Kind, ID: a.ID, MetricLabel: a.Handler.MetricLabel, Reason: a.View.Reason, Policy: a.Handler.Policy, Record: a.Record,
		Warnings: a.Handler.Warnings, QuietSuccess: a.QuietSuccess,
		Func: func(ctx context.Context) error {
			req := a.View.NewRequest(a.ID, a.Handler, a.Record.Attempt())
			if a.Prepare != nil {
				a.Prepare(req)
			}
			err := a.Handler.Do(ctx, req)
			if a.Accept == nil {
				return err
			}
			failed := a.Accept(req, err) // even after an error, because the changes of a failed attempt are written
			return cmp.Or(err, failed)
		},
	}
	if a.Once {
		call.Policy.Retries = new(1)
	}
	if a.AdjustOutcome != nil {
		call.AdjustOutcome = func(outcome progress.Outcome) progress.Outcome { return a.AdjustOutcome(ctx, outcome) }
	}
	if a.Restrict == nil {
		return Attempt(ctx, call)
	}
	restricted, end := a.Restrict(ctx)
	defer end()
	return Attempt(restricted, call)
}

// Attempt makes one attempt, logs its outcome and records metrics. The context must contain the object's logger. The handler's context gets
// this logger with the handler id, the reason and the number of the attempt.
func Attempt(ctx context.Context, call Invocation) progress.Outcome {
	logger := log.FromContext(ctx).WithValues("handler", call.ID, "reason", call.Reason, "attempt", call.Record.Retries)
	logger.V(1).Info("Calling the handler")
	start := time.Now()
	outcome := call.Policy.Attempt(log.IntoContext(ctx, logger), call.Record, start, call.Func)
	if call.AdjustOutcome != nil {
		outcome = call.AdjustOutcome(outcome)
	}
	call.Warnings.WarnMissingUnit(func() logr.Logger { return logger }, outcome)
	took := time.Since(start)
	logOutcome(logger, outcome, took, call.QuietSuccess)
	recordMetrics(call, outcome, took)
	return outcome
}

// logOutcome logs unexpected errors and panics at error level, so that the logger adds a stack. Temporary, permanent and ignored errors are
// logged at info level, without a stack.
func logOutcome(logger logr.Logger, outcome progress.Outcome, took time.Duration, quiet bool) {
	duration := took.Round(time.Microsecond).String()
	logFailure := func(message string) {
		switch panicked, ok := errors.AsType[*progress.PanicError](outcome.Err); {
		case ok:
			logger.Error(outcome.Err, message, "took", duration, "stack", guard.TrimStack(panicked.Stack))
		case progress.Expected(outcome.Err) || outcome.Success:
			logger.Info(message, "took", duration, "error", outcome.Err.Error())
		default:
			logger.Error(outcome.Err, message, "took", duration)
		}
	}
	switch {
	case outcome.Interrupted:
		logger.Info("Handler interrupted; its attempt does not count", "took", duration, "error", outcome.Err.Error())
	case outcome.Waiting:
		logger.V(1).Info("Handler waits for its sub-handlers", "took", duration, "again", outcome.Delay.String())
	case outcome.Success && outcome.Err == nil && quiet:
		logger.V(1).Info("Handler succeeded", "took", duration)
	case outcome.Success && outcome.Err == nil:
		logger.Info("Handler succeeded", "took", duration)
	case outcome.Success:
		logFailure("Handler failed; the error is ignored")
	case outcome.Final:
		logFailure("Handler failed permanently")
	default:
		logger = logger.WithValues("retryAfter", outcome.Delay.String())
		logFailure("Handler failed and will be retried")
	}
}

func recordMetrics(call Invocation, outcome progress.Outcome, took time.Duration) {
	label := call.MetricLabel
	if label == "" {
		label = call.ID
	}
	metrics.HandlerAttempts.WithLabelValues(call.Kind, label, outcomeLabel(outcome)).Inc()
	metrics.HandlerDuration.WithLabelValues(call.Kind, label).Observe(took.Seconds())
	if _, panicked := errors.AsType[*progress.PanicError](outcome.Err); panicked {
		metrics.HandlerPanics.WithLabelValues(call.Kind, label).Inc()
	}
}

func outcomeLabel(outcome progress.Outcome) string {
	switch {
	case outcome.Interrupted:
		return "interrupted"
	case outcome.Waiting:
		return "waiting"
	case outcome.Success && outcome.Err == nil:
		return "succeeded"
	case outcome.Success:
		return "ignored"
	case outcome.Final:
		return "failed"
	default:
		return "retried"
	}
}

// Warnings logs probable mistakes in one handler's results, each of them once. A nil *Warnings logs nothing. Warnings is safe for
// concurrent use.
type Warnings struct{ delayOnce sync.Once }

// WarnMissingUnit logs a warning if the delay before the next attempt looks like a number without a unit, such as 5 instead of
// 5*time.Second.
func (w *Warnings) WarnMissingUnit(logger func() logr.Logger, outcome progress.Outcome) {
	if w == nil || outcome.Final || outcome.Waiting || outcome.Interrupted {
		return
	}
	err := validation.DurationUnit(outcome.Delay)
	if err == nil {
		return
	}
	w.delayOnce.Do(func() {
		logger().Info("The delay before the next attempt is very short", "delay", err.Error())
	})
}
