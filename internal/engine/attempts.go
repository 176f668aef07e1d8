package engine

import (
	"context"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// RecordAttempts returns a hook that records all attempts.
func RecordAttempts(attempts *statuspage.Attempts) invoke.AttemptHook {
	return func(_ context.Context, a invoke.AttemptInfo) (context.Context, func(progress.Outcome)) {
		end := attempts.Begin(a.Kind.GroupKind(), a.Object, a.UID, explain.Attempt{Handler: a.Handler, Reason: a.Reason, Number: a.Attempt.Number + 1})
		return nil, func(outcome progress.Outcome) { end(attemptState(outcome), outcome.Err) }
	}
}

func attemptState(outcome progress.Outcome) explain.State {
	switch {
	case outcome.Success:
		return explain.Succeeded
	case outcome.Interrupted:
		return explain.Stopped
	case outcome.Waiting:
		return explain.Waiting
	case outcome.Final:
		return explain.Failed
	default:
		return explain.Retrying
	}
}
