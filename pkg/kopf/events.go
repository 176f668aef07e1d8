package kopf

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// EventLevel defines which Kubernetes Events the operator posts automatically. Handlers post their own with [Request.Eventf].
type EventLevel int

// The levels for [WithEvents].
const (
	// EventsTransitions posts an Event when a handler fails permanently, and when a cause handler succeeds after failed attempts. For
	// reconcile handlers, daemons and timers, it posts only the first permanent failure and the first success after it. This is the default.
	EventsTransitions = EventLevel(eventrecorder.Transitions)
	// EventsOff disables automatic Events.
	EventsOff = EventLevel(eventrecorder.Off)
	// EventsSteps posts an Event for each attempt of a cause handler, a reconcile handler, a daemon or a timer.
	EventsSteps = EventLevel(eventrecorder.Steps)
)

// WithEvents sets which Events the operator posts automatically. A failed attempt that will be retried isn't a transition, so a failing
// handler doesn't overload the API server with Events. The manager's Event recorder posts them to events.k8s.io; use [WithKopfEvents] for
// the form of kopf. Default: [EventsTransitions].
//
// Equivalent in kopf: settings.posting.enabled, settings.posting.level, settings.posting.loggers.
func WithEvents(level EventLevel) Option {
	return optionFunc(func(o *Operator) {
		if level < EventsTransitions || level > EventsSteps {
			o.addError(fmt.Errorf("WithEvents has the invalid level %d: use EventsTransitions, EventsOff or EventsSteps", level))
		}
		o.kinds.Settings.Events = eventrecorder.Level(level)
	})
}

// WithEventQuota sets how many Events the operator posts about an object: burst Events at once, and one more in each interval. A fifth of
// burst is only for Warnings and automatic Events, and another fifth only for automatic Events about failures, recoveries and problems of
// the operator. So a handler's Normal Events can't displace Warnings, and no Events of handlers can displace HandlerFailed.
//
// Events beyond the quota are dropped. The operator logs the first one of each object at level 0, and counts all of them in the metric
// kopf_unposted_events_total. The next new Event contains their number. Default: 50 Events, and one more every five minutes.
func WithEventQuota(burst int, interval time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if burst < 1 {
			o.addError(fmt.Errorf("WithEventQuota must allow at least one Event, got %d: use WithEvents(EventsOff) to disable automatic Events", burst))
		}
		if interval <= 0 {
			o.addError(fmt.Errorf("WithEventQuota needs a positive interval, got %s", interval))
		}
		if err := validation.DurationUnit(interval); err != nil {
			o.addError(fmt.Errorf("WithEventQuota: the interval is %w", err))
		}
		o.kinds.Settings.EventBurst, o.kinds.Settings.EventInterval = burst, interval
	})
}

// WithLogEvents also posts the log lines of handlers as Events about the object, so handlers must not log confidential values. The reason
// is "Logging", the action is the id of the handler, and the note contains the id, the message and its values. Info lines at V(0) become
// Normal Events, and errors become Warnings. Only lines of the logger in the handler's context are posted, not the operator's own. The
// quota of [Request.Eventf] applies. Default: no Events for log lines.
//
// Equivalent in kopf: settings.posting.loggers=True.
func WithLogEvents() Option {
	return optionFunc(func(o *Operator) { o.kinds.Settings.LogEvents = true })
}

// EventNames contains the names in the Events of [WithKopfEvents].
type EventNames struct {
	// Component is the name of the reporting controller and of the source. Default: "kopf". Equivalent in kopf: settings.posting.reporting_component.
	Component string
	// Instance is the reporting instance. Default: "dev". Equivalent in kopf: settings.posting.reporting_instance.
	Instance string
	// Prefix is the prefix of the names of the Events. Default: "kopf-event-". Equivalent in kopf: settings.posting.event_name_prefix.
	Prefix string
}

// WithKopfEvents posts all Events in the form of kopf, including those of [Request.Eventf]. Use it if you have clients that select
// reportingComponent=kopf. The Events go to the core v1 API, with the action "Action?". A repeated Event becomes a new object instead of
// increasing a count. The operator needs permission to create events of the core group. Default: the form of events.k8s.io.
func WithKopfEvents(names EventNames) Option {
	names.Component = cmp.Or(names.Component, "kopf")
	names.Instance = cmp.Or(names.Instance, "dev")
	names.Prefix = cmp.Or(names.Prefix, "kopf-event-")
	return optionFunc(func(o *Operator) {
		addError := func(field, value string, err error) {
			if err != nil {
				o.addError(fmt.Errorf("WithKopfEvents: %s %q is invalid: %w", field, value, err))
			}
		}
		addError("Component", names.Component, validation.QualifiedName(names.Component))
		addError("Prefix", names.Prefix, validation.Subdomain(names.Prefix+"1")) // the names of Events have a suffix
		if len(names.Instance) > maxInstanceLength {
			addError("Instance", names.Instance, fmt.Errorf("it has %d bytes: use at most %d", len(names.Instance), maxInstanceLength))
		}
		o.eventNames = &eventrecorder.ReporterIdentity{Component: names.Component, Instance: names.Instance, Prefix: names.Prefix}
	})
}

const maxInstanceLength = 128

// newRecorder sets the recorder of the settings. It returns the recorder if the caller must run it, and nil otherwise.
func newRecorder(mgr manager.Manager, names *eventrecorder.ReporterIdentity, settings *engine.Settings) (*eventrecorder.CoreV1Recorder, error) {
	if names == nil {
		settings.Recorder, settings.AggregatesEvents = mgr.GetEventRecorder(recorderName), true
		return nil, nil
	}
	core, err := corev1client.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating the Event recorder: %w", err)
	}
	recorder := eventrecorder.NewCoreV1Recorder(core, *names)
	settings.Recorder = recorder
	return recorder, nil
}

// runRecorder runs a recorder until stop is called. It keeps running after ctx is cancelled, so that handlers can still post Events while
// the operator stops.
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

// recorderName is the reporting controller of the Events.
const recorderName = "kopf-runtime"

// reporters returns the reporting controllers of the operator's own Events.
func (d *declared) reporters() []string {
	if d.eventNames != nil {
		return []string{recorderName, d.eventNames.Component}
	}
	return []string{recorderName}
}
