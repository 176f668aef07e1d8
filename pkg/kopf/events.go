package kopf

import (
	"cmp"
	"context"
	"fmt"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
)

// WithEvents sets which Kubernetes Events the operator posts, how many, and in which form. A later WithEvents replaces an earlier one.
//
// Equivalent in kopf: settings.posting.
func WithEvents(options events.Options) Option {
	return optionFunc(func(o *Operator) {
		if options.Level < events.Transitions || options.Level > events.Steps {
			o.addError(fmt.Errorf("WithEvents has the invalid Level %d: use events.Transitions, events.Off or events.Steps", options.Level))
		}
		if options.Burst < 0 {
			o.addError(fmt.Errorf("WithEvents: Burst must not be negative, got %d: use the Level events.Off to disable automatic Events", options.Burst))
		}
		if options.Interval < 0 {
			o.addError(fmt.Errorf("WithEvents: Interval must not be negative, got %s", options.Interval))
		}
		if err := validation.DurationUnit(options.Interval); err != nil {
			o.addError(fmt.Errorf("WithEvents: Interval is %w", err))
		}
		settings := &o.kinds.Settings
		settings.Events, settings.LogEvents = eventrecorder.Level(options.Level), options.LogLines
		settings.EventBurst, settings.EventInterval = options.Burst, options.Interval
		o.eventNames = nil
		if options.KopfForm != nil {
			o.useKopfForm(*options.KopfForm)
		}
	})
}

func (d *declared) useKopfForm(form events.KopfForm) {
	form.Component = cmp.Or(form.Component, "kopf")
	form.Instance = cmp.Or(form.Instance, "dev")
	form.Prefix = cmp.Or(form.Prefix, "kopf-event-")
	addError := func(field, value string, err error) {
		if err != nil {
			d.addError(fmt.Errorf("WithEvents: %s %q of KopfForm is invalid: %w", field, value, err))
		}
	}
	addError("Component", form.Component, validation.QualifiedName(form.Component))
	addError("Prefix", form.Prefix, validation.Subdomain(form.Prefix+"1")) // Event names have a suffix
	if len(form.Instance) > maxInstanceLength {
		addError("Instance", form.Instance, fmt.Errorf("it has %d bytes: use at most %d", len(form.Instance), maxInstanceLength))
	}
	d.eventNames = &eventrecorder.ReporterIdentity{Component: form.Component, Instance: form.Instance, Prefix: form.Prefix}
}

const maxInstanceLength = 128

// newRecorder sets the recorder in the settings. It returns the recorder if the caller must run it, and nil otherwise.
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
