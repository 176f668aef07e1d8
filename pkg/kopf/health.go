package kopf

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

const defaultStuckAfter = 10 * time.Minute

// WithStuckAfter sets how long objects may wait while no reconcile finishes, before [Operator.Healthz] fails. The duration must be
// longer than the longest handler takes. Default: 10 minutes.
func WithStuckAfter(pause time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if pause <= 0 {
			o.addError(fmt.Errorf("WithStuckAfter(%s): use a duration of more than zero", pause))
		}
		if err := validation.Duration(pause); err != nil {
			o.addError(fmt.Errorf("WithStuckAfter is %w", err))
		}
		o.stuckAfter = pause
	})
}

// Healthz fails where a restart helps: if the operator is stuck, that is if objects wait, and nothing has been finished for a long time
// (see [WithStuckAfter]); and if a watch has been silent for as long (see [WithWatchCheck]). It is a healthz.Checker, for a liveness
// probe: mgr.AddHealthzCheck("kopf", op.Healthz).
func (o *Operator) Healthz(*http.Request) error {
	var errs []error
	for _, e := range o.runningEngines() {
		p := e.Pulse()
		if p.Waiting > 0 && p.Longest >= o.stuckAfter && p.Unfinished >= o.stuckAfter {
			errs = append(errs, fmt.Errorf("%s: %d objects wait, the first for %s, and none of the %d that are being handled has been finished for %s",
				e.Name, p.Waiting, p.Longest.Round(time.Second), p.Running, p.Unfinished.Round(time.Second)))
		}
	}
	for _, p := range o.watchProblems() {
		if p.Reason == watchcheck.Silent && p.Age >= o.stuckAfter {
			errs = append(errs, p)
		}
	}
	return errors.Join(errs...)
}

// Readyz fails while the operator is starting: until its caches and indexes are complete, and its peers are known; while its
// peering fails; and while a watch delivers no changes (see [WithWatchCheck]). One that is paused by others is ready, and so is one that is
// waiting to become the leader. It is a healthz.Checker, for a readiness probe: mgr.AddReadyzCheck("kopf", op.Readyz).
func (o *Operator) Readyz(*http.Request) error {
	o.mu.Lock()
	peers, starting := o.peering, o.started && o.unsynced > 0
	o.mu.Unlock()
	var errs []error
	if starting {
		errs = append(errs, errors.New("the operator is starting: its caches are not complete yet"))
	} else if peers != nil {
		errs = append(errs, peers.Readyz(nil))
	}
	for _, p := range o.watchProblems() {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (o *Operator) runningEngines() []*engine.Engine {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.engines
}
