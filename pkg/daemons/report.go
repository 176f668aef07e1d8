package daemons

import (
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// noun is what the job is called in the log.
func (j *job) noun() string {
	if j.task.Timer != nil {
		return "Timer"
	}
	return "Daemon"
}

// logger is the one of the manager, with what the job is.
func (s *Supervisor) logger(j *job) logr.Logger {
	kind := s.options.Kind
	if kind == "" {
		kind = j.task.Kind
	}
	return s.log.WithValues("kind", kind, "namespace", j.task.Object.Namespace,
		"name", j.task.Object.Name, "uid", j.key.UID, "handler", j.key.ID)
}

// report tells how an attempt has ended. Errors that are announced, or ignored as asked, have no stack in the log;
// those that nobody expected do.
func (s *Supervisor) report(j *job, record progress.Record, outcome progress.Outcome, took time.Duration) {
	kind, label := j.task.Kind, j.task.label(j.key)
	metrics.Handlers.WithLabelValues(kind, label, name(outcome)).Inc()
	metrics.Durations.WithLabelValues(kind, label).Observe(took.Seconds())
	panicked, hasPanicked := errors.AsType[*progress.PanicError](outcome.Err)
	if hasPanicked {
		metrics.Panics.WithLabelValues(kind, label).Inc()
	}
	message := j.noun() + " " + consequence(outcome)
	quiet := outcome.Err == nil && j.task.Timer != nil
	if quiet && !s.log.V(1).Enabled() {
		return // there are many of them
	}
	logger := s.logger(j).WithValues("attempt", record.Retries, "took", took.Round(time.Microsecond).String())
	if !outcome.Final && !outcome.Interrupted {
		logger = logger.WithValues("retryAfter", outcome.Delay.String())
	}
	switch {
	case quiet:
		logger.V(1).Info(message)
	case outcome.Err == nil:
		logger.Info(message)
	case hasPanicked:
		logger.Error(outcome.Err, message, "stack", strings.TrimSpace(string(panicked.Stack)))
	case outcome.Interrupted || outcome.Success || progress.Expected(outcome.Err):
		logger.Info(message, "error", outcome.Err.Error())
	default:
		logger.Error(outcome.Err, message)
	}
}

func consequence(outcome progress.Outcome) string {
	switch {
	case outcome.Interrupted:
		return "stopped as it was told"
	case outcome.Success && outcome.Err == nil:
		return "succeeded"
	case outcome.Success:
		return "failed; its error is ignored as asked"
	case outcome.Final:
		return "failed for good"
	default:
		return "failed; it will be called again"
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

// unheeding tells of a run that goes on though its context has ended.
func (s *Supervisor) unheeding(j *job, consequence string) {
	r := j.run
	if !r.unstopped {
		r.unstopped = true
		metrics.Unstopped.WithLabelValues(j.task.Kind, j.task.label(j.key)).Inc()
	}
	logger := s.logger(j).WithValues("cause", text(r.cause), "since", time.Since(r.told).Round(time.Millisecond).String())
	message := "Warning: " + j.noun() + " does not stop though its context has ended: let it return when ctx is done. " + consequence
	s.after = append(s.after, func() { logger.Info(message) })
}

// heeded is for a run that has ended at last.
func (s *Supervisor) heeded(j *job, r *run) {
	if !r.unstopped {
		return
	}
	metrics.Unstopped.WithLabelValues(j.task.Kind, j.task.label(j.key)).Dec()
	logger := s.logger(j).WithValues("since", time.Since(r.told).Round(time.Millisecond).String())
	message := j.noun() + " has stopped at last"
	s.after = append(s.after, func() { logger.Info(message) })
}

// complain logs a schedule that returned an unusable time, once for each handler: all its objects have the same schedule.
func (s *Supervisor) complain(j *job, err error) {
	if !s.isNews(j, "unusable") {
		return
	}
	logger := s.logger(j)
	s.after = append(s.after, func() {
		logger.Error(err, "Timer is not called: its schedule is wrong, and is asked again", "retryAfter", schedulePause.String())
	})
}

// reportEnd logs a schedule that has no further time, once for each handler.
func (s *Supervisor) reportEnd(j *job) {
	if !s.isNews(j, "ended") {
		return
	}
	logger := s.logger(j)
	s.after = append(s.after, func() { logger.Info("Timer has ended: its schedule has no next time") })
}

// isNews reports whether a message about the schedule of a handler was not logged before.
func (s *Supervisor) isNews(j *job, message string) bool {
	key := reported{j.task.Kind, j.key.ID, message}
	if s.reported[key] {
		return false
	}
	s.reported[key] = true
	return true
}

// A reported message is one that is logged once for each handler.
type reported struct{ kind, id, message string }

func text(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}
