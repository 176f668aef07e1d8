package kopf

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A declaration holds a handler's options and their errors, which [Operator.CheckDeclaration] reports.
type declaration struct {
	invoke.Handler
	task             daemons.Task // for a daemon or timer
	initialDelayFunc func(client.Object) time.Duration
	id               string
	method           string // method or function that added the handler, such as OnCreate
	handlerKind      handlerKind
	owners           []client.Object
	errs             []error

	checkedMatchers    map[string][]match.Matcher        // matchers by label, annotation or field
	requirements       []labels.Requirement              // for watches with a label selector
	literals           []match.Operand                   // values that the handler's field is compared with
	requiredConditions map[string]metav1.ConditionStatus // conditions of WhenCondition
	events             *kinds.EventSelection             // for OnEventAbout
}

// A handlerKind determines when the operator calls a handler, and which options apply to it.
type handlerKind int

const (
	causeHandler      handlerKind = iota // OnCreate, OnUpdate, OnDelete, OnResume, On, OnField, OnCondition and OnChange
	eventHandler                         // OnEvent
	reconcileHandler                     // OnReconcile
	eventAboutHandler                    // OnEventAbout
	indexHandler                         // IndexBy
	daemonHandler
	timerHandler
	subHandler      // Request.Sub
	activityHandler // OnStartup, OnCleanup and OnVersion
)

func (k handlerKind) String() string {
	return [...]string{
		"cause handlers", "OnEvent handlers", "OnReconcile handlers", "OnEventAbout handlers", "index functions", "daemons", "timers", "sub-handlers", "functions of the operator",
	}[k]
}

// addTo adds an event handler, a reconcile handler, a daemon or a timer to the kind. The caller reports duplicate ids.
func (d *declaration) addTo(kind *engine.Kind, handler *invoke.Handler) {
	id := d.fullID()
	switch d.handlerKind {
	case eventHandler:
		_ = kind.EventHandlers.Add(id, id, handler)
	case reconcileHandler, eventAboutHandler:
		_ = kind.ReconcileHandlers.Add(id, id, handler)
	case daemonHandler, timerHandler:
		_ = kind.BackgroundHandlers.Add(id, id, &invoke.BackgroundHandler{Handler: *handler, Task: d.task, InitialDelay: d.initialDelayFunc})
	default: // register adds cause handlers and indexes separately
	}
}

func (d *declaration) apply(opts []HandlerOption) {
	for _, opt := range opts {
		if opt != nil {
			opt(d)
		}
	}
}

// requireKind adds an error if the option doesn't apply to this kind of handler. OnEventAbout handlers accept the options of OnEvent
// handlers; WriteChanges adds its own error for them.
func (d *declaration) requireKind(option string, kinds ...handlerKind) {
	if d.handlerKind == eventAboutHandler && slices.Contains(kinds, eventHandler) {
		return
	}
	if !slices.Contains(kinds, d.handlerKind) {
		d.addErrorf("%s has no effect on %s: remove it", option, d.handlerKind)
	}
}

func (d *declaration) addErrorf(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(format, args...))
}

// checkDuration adds an error if the duration is negative, or so short that its unit is probably missing.
func (d *declaration) checkDuration(option string, value time.Duration) {
	if value < 0 {
		d.addErrorf("%s must not be negative, got %s", option, value)
	}
	d.checkUnit(option, value)
}

// checkUnit adds an error if the duration is so short that its unit is probably missing.
func (d *declaration) checkUnit(option string, value time.Duration) {
	if err := validation.DurationUnit(value); err != nil {
		d.addErrorf("%s is %w", option, err)
	}
}

func (d *declaration) hasReason(reason Reason) bool {
	return slices.Contains(d.Reasons, string(reason))
}

// fullID returns the id under which the progress is stored. As in kopf, the id of a handler with a field ends with the path of the
// field, except for sub-handlers and index functions.
func (d *declaration) fullID() string {
	if d.Field == nil || d.id == "" || d.isForCondition() || slices.Contains([]handlerKind{subHandler, indexHandler}, d.handlerKind) {
		return d.id
	}
	return d.id + "/" + strings.Join(d.Field.Path, ".")
}

// displayName returns the handler's name for errors, such as OnCreate("provision").
func (d *declaration) displayName() string { return fmt.Sprintf("%s(%q)", d.method, d.id) }

// isForCondition reports whether the handler was added with OnCondition.
func (d *declaration) isForCondition() bool {
	return d.Criteria.Field != nil && d.Criteria.Field.Path[0] == essence.ConditionsKey
}

// A HandlerOption configures one handler. Most options correspond to a keyword argument of kopf's decorators.
type HandlerOption func(*declaration)
