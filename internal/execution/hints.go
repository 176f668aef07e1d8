package execution

import (
	"sync"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Hints logs probable mistakes in what a handler returns, each once per handler. A nil *Hints logs none.
type Warnings struct{ delayOnce sync.Once }

// Delay logs a delay before the next attempt that is a number without a unit, such as 5 instead of 5*time.Second.
func (h *Warnings) CheckDelay(logger logr.Logger, outcome progress.Outcome) {
	if h == nil || outcome.Final || outcome.Waiting || outcome.Interrupted {
		return
	}
	err := validation.Duration(outcome.Delay)
	if err == nil {
		return
	}
	h.delayOnce.Do(func() {
		logger.Info("Warning: the delay before the next attempt is very short", "delay", err.Error())
	})
}
