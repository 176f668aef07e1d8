package kopf

import (
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// EventLevel says which Kubernetes Events the operator posts by itself; see [Request.Eventf] for those of handlers.
type EventLevel = engine.Events

// The levels for [WithEvents].
const (
	EventsTransitions = engine.EventsTransitions // when a handler has failed for good, or has succeeded after it had failed; the default
	EventsOff         = engine.EventsOff         // none
	EventsSteps       = engine.EventsSteps       // for each attempt of each handler
)

// WithEvents sets which Events are posted about the objects without handlers asking for it. Default:
// [EventsTransitions]. Attempts that will be made again are no transitions, so a handler that fails all the time
// does not flood anybody.
//
// kopf: settings.posting.enabled, settings.posting.level, settings.posting.loggers.
func WithEvents(level EventLevel) Option {
	return optionFunc(func(o *Operator) {
		if level < EventsTransitions || level > EventsSteps {
			o.mistake(fmt.Errorf("WithEvents(%d) is no level: use EventsTransitions, EventsOff or EventsSteps", level))
		}
		o.settings.Events = level
	})
}
