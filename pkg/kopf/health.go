package kopf

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

const defaultStuckAfter = 10 * time.Minute

// WithStuckAfter sets how long objects may wait without any reconcile finishing before [Operator.Healthz] fails. It also limits how long a
// watch may be silent. The duration must be positive, and longer than the longest handler call. Default: 10 minutes.
func WithStuckAfter(duration time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if duration <= 0 {
			o.addError(fmt.Errorf("WithStuckAfter must be positive, got %s", duration))
		}
		if err := validation.DurationUnit(duration); err != nil {
			o.addError(fmt.Errorf("WithStuckAfter is %w", err))
		}
		o.stuckAfter = duration
	})
}

// Healthz returns an error if objects of a kind are waiting, but no reconcile of the kind has finished for the duration of
// [WithStuckAfter]. It also returns an error if a watch has been silent for that long (see [WithWatchCheck]). Restarting the process can
// help in both cases, so use Healthz as a healthz.Checker for liveness probes:
//
//	mgr.AddHealthzCheck("kopf", op.Healthz)
//
// [SetupWithManager] already does this.
func (o *Operator) Healthz(*http.Request) error {
	var errs []error
	for _, e := range o.kinds.Engines.All() {
		p := e.QueueStats()
		if p.Waiting > 0 && p.Longest >= o.stuckAfter && p.Unfinished >= o.stuckAfter {
			errs = append(errs, fmt.Errorf("%s: %d objects wait, the first for %s, and none of the %d running reconciles has finished for %s",
				e.Name, p.Waiting, p.Longest.Round(time.Second), p.Running, p.Unfinished.Round(time.Second)))
		}
	}
	for _, p := range o.kinds.Watches.Problems() {
		if p.Reason == watchcheck.Silent && p.Age >= o.stuckAfter {
			errs = append(errs, p)
		}
	}
	return errors.Join(errs...)
}

// notWarm returns why a replica that waits for leadership isn't ready.
func (o *Operator) notWarm() []error {
	if !o.warmsUp() {
		return nil
	}
	return []error{o.kinds.Warmth.NotReady()}
}

// peersNotReady returns why the peering isn't ready, once the operator has started.
func peersNotReady(rt *kinds.Runtime, part *peers.Part) []error {
	if rt.IsStarting() {
		return nil
	}
	return part.NotReady()
}
