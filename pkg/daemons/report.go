package daemons

import (
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// title returns the word for the job in log messages.
func (j *job) title() string {
	if j.task.Timer != nil {
		return "Timer"
	}
	return "Daemon"
}

// logger returns the logger of the manager with values that identify the job.
func (s *Supervisor) logger(j *job) logr.Logger {
	kind := s.options.Kind
	if kind == "" {
		kind = j.task.Kind
	}
	return s.log.WithValues("kind", kind, "namespace", j.task.Object.Namespace,
		"name", j.task.Object.Name, "uid", j.key.UID, "handler", j.key.ID)
}

// report logs and counts the outcome of an attempt. Expected errors are logged at the info level, without a stack trace.
func (s *Supervisor) report(j *job, record progress.Record, outcome progress.Outcome, took time.Duration) {
	kind, label := j.task.Kind, j.task.label(j.key)
	metrics.HandlerAttempts.WithLabelValues(kind, label, resultLabel(outcome)).Inc()
	metrics.HandlerDuration.WithLabelValues(kind, label).Observe(took.Seconds())
	panicked, hasPanicked := errors.AsType[*progress.PanicError](outcome.Err)
	if hasPanicked {
		metrics.HandlerPanics.WithLabelValues(kind, label).Inc()
	}
	message := j.title() + " " + describeOutcome(outcome)
	silent := outcome.Err == nil && j.task.Timer != nil
	if silent && !s.log.V(1).Enabled() {
		return // don't build the logger
	}
	logger := s.logger(j).WithValues("attempt", record.Retries, "took", took.Round(time.Microsecond).String())
	if !outcome.Final && !outcome.Interrupted {
		logger = logger.WithValues("retryAfter", outcome.Delay.String())
	}
	switch {
	case silent:
		logger.V(1).Info(message)
	case outcome.Err == nil:
		logger.Info(message)
	case hasPanicked:
		logger.Error(outcome.Err, message, "stack", guard.TrimStack(panicked.Stack))
	case outcome.Interrupted || outcome.Success || progress.Expected(outcome.Err):
		logger.Info(message, "error", outcome.Err.Error())
	default:
		logger.Error(outcome.Err, message)
	}
}

func describeOutcome(outcome progress.Outcome) string {
	switch {
	case outcome.Interrupted:
		return "stopped"
	case outcome.Success && outcome.Err == nil:
		return "succeeded"
	case outcome.Success:
		return "failed; the error is ignored"
	case outcome.Final:
		return "failed permanently"
	default:
		return "failed and will be retried"
	}
}

func resultLabel(outcome progress.Outcome) string {
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

// reportUnstopped logs a run that ignores the cancellation of its context.
func (s *Supervisor) reportUnstopped(j *job, state string) {
	r := j.run
	if !r.unstopped {
		r.unstopped = true
		metrics.BackgroundUnstopped.WithLabelValues(j.task.Kind, j.task.label(j.key)).Inc()
	}
	logger := s.logger(j).WithValues("state", state, "cause", causeText(r.cause), "since", time.Since(r.stoppedAt).Round(time.Millisecond).String())
	message := j.title() + " ignores the cancellation of its context; return when ctx is done"
	s.deferred = append(s.deferred, func() { logger.Info(message) })
}

// reportStopped logs that an unstopped run has returned after all.
func (s *Supervisor) reportStopped(j *job, r *run) {
	if !r.unstopped {
		return
	}
	metrics.BackgroundUnstopped.WithLabelValues(j.task.Kind, j.task.label(j.key)).Dec()
	logger := s.logger(j).WithValues("since", time.Since(r.stoppedAt).Round(time.Millisecond).String())
	message := j.title() + " stopped after its context had been cancelled"
	s.deferred = append(s.deferred, func() { logger.Info(message) })
}

// logScheduleError logs an invalid result of a schedule, once per handler. The handler's timers usually share the schedule.
func (s *Supervisor) logScheduleError(j *job, err error) {
	if !s.isFirst(j, "unusable") {
		return
	}
	logger := guard.WithStack(s.logger(j), err)
	s.deferred = append(s.deferred, func() {
		logger.Error(err, "Timer schedule returned an invalid time; the timer is not invoked", "retryAfter", schedulePause.String())
	})
}

// logScheduleEnd logs that a schedule has no further time, once per handler.
func (s *Supervisor) logScheduleEnd(j *job) {
	if !s.isFirst(j, "ended") {
		return
	}
	logger := s.logger(j)
	s.deferred = append(s.deferred, func() { logger.Info("Timer ended because its schedule has no further time") })
}

// isFirst records the message and reports whether it is new for the handler.
func (s *Supervisor) isFirst(j *job, message string) bool {
	key := loggedMessage{j.task.Kind, j.key.ID, message}
	if s.logged[key] {
		return false
	}
	s.logged[key] = true
	return true
}

// A loggedMessage identifies a message that is logged once per handler.
type loggedMessage struct{ kind, id, message string }

func causeText(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}
