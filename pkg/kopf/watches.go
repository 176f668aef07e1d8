package kopf

import (
	"fmt"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

const defaultWatchCheck = time.Minute

// WithWatchCheck sets how often the operator checks whether the watches of its kinds and related kinds still deliver changes. 0 disables
// the check. Each check sends one small request for each watch. There is one watch for each kind, or for each kind and namespace if the
// cache is restricted to namespaces (see [WithNamespaces]). Default: one minute.
//
// [Operator.Readyz] fails if a watch is forbidden, if the API server doesn't serve the kind in the declared version, if an object doesn't
// decode and the manager's cache is not [NewCache], or if the watch is silent: its connection is open, but for two intervals the checks
// show that it misses changes or delivers nothing. [Operator.Healthz] fails if a watch is silent for longer than [WithStuckAfter]. The
// metric kopf_watch_problems counts the watches with problems.
//
// For the watches of OnEventAbout handlers, the check sends no requests, so it can't detect that they are silent.
//
// The informers of a custom cache (NewCache in the manager's options) can only be checked if they provide their resource version.
func WithWatchCheck(interval time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if interval < 0 {
			o.addError(fmt.Errorf("WithWatchCheck must not be negative, got %s: use 0 to disable the check", interval))
		}
		if err := validation.DurationUnit(interval); err != nil {
			o.addError(fmt.Errorf("WithWatchCheck is %w", err))
		}
		o.kinds.WatchCheck = interval
	})
}
