package kopf

import (
	"cmp"
	"context"
	"fmt"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// EventLevel says which Kubernetes Events the operator posts by itself; see [Request.Eventf] for those of handlers.
type EventLevel int

// The levels for [WithEvents].
const (
	EventsTransitions = EventLevel(engine.EventsTransitions) // when a handler has failed for good, or has succeeded after it had failed; the default
	EventsOff         = EventLevel(engine.EventsOff)         // none
	EventsSteps       = EventLevel(engine.EventsSteps)       // for each attempt of each handler
)

// WithEvents sets which Events the operator posts automatically. Default: [EventsTransitions]. An attempt that will be retried is no
// transition, so a handler that keeps failing does not flood the API. The Events are posted to events.k8s.io by the recorder of
// the manager; see [WithKopfEvents] for the form of kopf.
//
// kopf: settings.posting.enabled, settings.posting.level, settings.posting.loggers.
func WithEvents(level EventLevel) Option {
	return optionFunc(func(o *Operator) {
		if level < EventsTransitions || level > EventsSteps {
			o.addError(fmt.Errorf("WithEvents(%d) is no level: use EventsTransitions, EventsOff or EventsSteps", level))
		}
		o.settings.Events = engine.Events(level)
	})
}

// EventNames are the names of the reporter in Events of [WithKopfEvents].
type EventNames struct {
	// Component is the reporting component, and that of the source. Default: "kopf". kopf: settings.posting.reporting_component.
	Component string
	// Instance is the reporting instance. Default: "dev". kopf: settings.posting.reporting_instance.
	Instance string
	// Prefix starts the names of the Events. Default: "kopf-event-". kopf: settings.posting.event_name_prefix.
	Prefix string
}

// WithKopfEvents posts all Events in the form of kopf, including those of [Request.Eventf]: to the core v1 API, for clients that select
// reportingComponent=kopf. Repeated Events are not counted there, and the action is always "Action?". The operator then needs the
// permission to create events of the core group. Default: events.k8s.io.
func WithKopfEvents(names EventNames) Option {
	names.Component = cmp.Or(names.Component, "kopf")
	names.Instance = cmp.Or(names.Instance, "dev")
	names.Prefix = cmp.Or(names.Prefix, "kopf-event-")
	return optionFunc(func(o *Operator) {
		refuse := func(field, value string, why error) {
			if why != nil {
				o.addError(fmt.Errorf("WithKopfEvents: the %s %q is refused by the API: %w", field, value, why))
			}
		}
		refuse("Component", names.Component, validation.QualifiedName(names.Component))
		refuse("Prefix", names.Prefix, validation.Subdomain(names.Prefix+"1")) // a name is the prefix with a suffix
		if len(names.Instance) > maxInstanceLength {
			refuse("Instance", names.Instance, fmt.Errorf("it must have at most %d bytes", maxInstanceLength))
		}
		o.eventNames = &eventrecorder.Reporter{Component: names.Component, Instance: names.Instance, Prefix: names.Prefix}
	})
}

const maxInstanceLength = 128

// records sets who posts the Events. It returns the poster that has to be started; nil if there is nothing to start.
func (o *Operator) newRecorder(settings *engine.Settings) (*eventrecorder.CoreV1Recorder, error) {
	if o.eventNames == nil {
		settings.Recorder, settings.Counts = o.mgr.GetEventRecorder(recorderName), true
		return nil, nil
	}
	core, err := corev1client.NewForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("posting Events: %w", err)
	}
	recorder := eventrecorder.NewCoreV1Recorder(core, *o.eventNames)
	settings.Recorder = recorder
	return recorder, nil
}

// posts runs a poster until it is told to stop, which is when nobody posts any more.
func runRecorder(ctx context.Context, recorder *eventrecorder.CoreV1Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		recorder.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
