package invoke

import (
	"sync"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Warnings logs probable mistakes in the results of one handler. It logs each mistake once. A nil *Warnings logs nothing. Warnings is safe for
// concurrent use.
type Warnings struct{ delayOnce sync.Once }

// WarnMissingUnit logs a warning if the delay before the next attempt is a number without a unit, such as 5 instead of 5*time.Second.
func (w *Warnings) WarnMissingUnit(logger logr.Logger, outcome progress.Outcome) {
	if w == nil || outcome.Final || outcome.Waiting || outcome.Interrupted {
		return
	}
	err := validation.DurationUnit(outcome.Delay)
	if err == nil {
		return
	}
	w.delayOnce.Do(func() {
		logger.Info("Warning: the delay before the next attempt is very short", "delay", err.Error())
	})
}
