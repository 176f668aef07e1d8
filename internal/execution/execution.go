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
type Call struct {
	Kind   string // the controller's name, for metrics
	ID     string
	Reason string
	Policy progress.Policy
	Record progress.Record
	Do     func(ctx context.Context) error
}

// Invoke makes one attempt, and tells of it in the log and in the metrics. The handler finds its
// logger in its context, with its id, the reason and the number of the attempt.
func Invoke(ctx context.Context, call Call) progress.Outcome {
	logger := log.FromContext(ctx).WithValues("handler", call.ID, "reason", call.Reason, "attempt", call.Record.Retries)
	logger.V(1).Info("Calling the handler")
	began := time.Now()
	outcome := call.Policy.Attempt(log.IntoContext(ctx, logger), call.Record, began, call.Do)
	report(logger.WithValues("took", time.Since(began).Round(time.Microsecond).String()), outcome)
	count(call, outcome)
	return outcome
}

// report follows one rule for stacks: errors that handlers announce themselves, or want ignored, have
// none; those that nobody expected do (B-27).
func report(logger logr.Logger, outcome progress.Outcome) {
	say := func(message string) {
		switch panicked, ok := errors.AsType[*progress.PanicError](outcome.Err); {
		case ok:
			logger.Error(outcome.Err, message, "stack", trimmed(panicked.Stack))
		case progress.Expected(outcome.Err) || outcome.Success:
			logger.Info(message, "error", outcome.Err.Error())
		default:
			logger.Error(outcome.Err, message)
		}
	}
	switch {
	case outcome.Interrupted:
		logger.Info("Handler interrupted; its attempt does not count", "error", outcome.Err.Error())
	case outcome.Success && outcome.Err == nil:
		logger.Info("Handler succeeded")
	case outcome.Success:
		say("Handler failed; its error is ignored as asked")
	case outcome.Final:
		say("Handler failed for good")
	default:
		logger = logger.WithValues("retryAfter", outcome.Delay.String())
		say("Handler failed; it will be called again")
	}
}

func count(call Call, outcome progress.Outcome) {
	metrics.Handlers.WithLabelValues(call.Kind, call.ID, name(outcome)).Inc()
	if _, panicked := errors.AsType[*progress.PanicError](outcome.Err); panicked {
		metrics.Panics.WithLabelValues(call.Kind, call.ID).Inc()
	}
}

func name(outcome progress.Outcome) string {
	switch {
	case outcome.Interrupted:
		return "interrupted"
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
