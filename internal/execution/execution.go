package execution

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Call is one handler that is to be called once.
type Invocation struct {
	Kind        string // the controller's name, for metrics
	ID          string
	MetricLabel string // for metrics, where there may be many ids; default: the id
	Reason      string
	Policy      progress.Policy
	Record      progress.Record
	Func        func(ctx context.Context) error
	// Then, if set, has the last word about the outcome: sub-handlers come here.
	AdjustOutcome func(progress.Outcome) progress.Outcome
	// Hints logs probable mistakes of the handler; nil: none are logged.
	Warnings *Warnings
	// Quiet: success is no news.
	QuietSuccess bool
}

// Invoke makes one attempt, and tells of it in the log and in the metrics. The handler finds its
// logger in its context, with its id, the reason and the number of the attempt.
func Invoke(ctx context.Context, call Invocation) progress.Outcome {
	logger := log.FromContext(ctx).WithValues("handler", call.ID, "reason", call.Reason, "attempt", call.Record.Retries)
	logger.V(1).Info("Calling the handler")
	began := time.Now()
	outcome := call.Policy.Attempt(log.IntoContext(ctx, logger), call.Record, began, call.Func)
	if call.AdjustOutcome != nil {
		outcome = call.AdjustOutcome(outcome)
	}
	call.Warnings.CheckDelay(logger, outcome)
	logOutcome(logger.WithValues("took", time.Since(began).Round(time.Microsecond).String()), outcome, call.QuietSuccess)
	recordMetrics(call, outcome, time.Since(began))
	return outcome
}

// report follows one rule for stacks: errors that handlers announce themselves, or want ignored, have
// none; those that nobody expected do (B-27).
func logOutcome(logger logr.Logger, outcome progress.Outcome, quiet bool) {
	say := func(message string) {
		switch panicked, ok := errors.AsType[*progress.PanicError](outcome.Err); {
		case ok:
			logger.Error(outcome.Err, message, "stack", trimStack(panicked.Stack))
		case progress.Expected(outcome.Err) || outcome.Success:
			logger.Info(message, "error", outcome.Err.Error())
		default:
			logger.Error(outcome.Err, message)
		}
	}
	switch {
	case outcome.Interrupted:
		logger.Info("Handler interrupted; its attempt does not count", "error", outcome.Err.Error())
	case outcome.Waiting:
		logger.V(1).Info("Handler waits for its sub-handlers", "again", outcome.Delay.String())
	case outcome.Success && outcome.Err == nil && quiet:
		logger.V(1).Info("Handler succeeded")
	case outcome.Success && outcome.Err == nil:
		logger.Info("Handler succeeded")
	case outcome.Success:
		say("Handler failed; the error is ignored")
	case outcome.Final:
		say("Handler failed permanently")
	default:
		logger = logger.WithValues("retryAfter", outcome.Delay.String())
		say("Handler failed and will be retried")
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
