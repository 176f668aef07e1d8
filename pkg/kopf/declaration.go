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
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A declaration is a handler as it is being declared.
type declaration struct {
	engine.Handler
	task             daemons.Task // of a daemon or a timer
	initialDelayFunc func(client.Object) time.Duration
	id               string
	method           string // by which it was declared
	handlerKind      handlerKind
	owners           []client.Object
	errs             []error

	checkedMatchers    map[string][]match.Matcher        // of each key and field
	requirements       []labels.Requirement              // of labels, as far as the server can be asked
	literals           []match.Literal                   // with which the value of the field is compared
	requiredConditions map[string]metav1.ConditionStatus // by WhenCondition
}

// A role is what a handler is called for.
type handlerKind int

const (
	causeHandler     handlerKind = iota // what has happened
	eventHandler                        // what is observed
	reconcileHandler                    // what there is
	indexHandler                        // what there is, before all others
	daemonHandler                       // the object, all the time
	timerHandler                        // the object, again and again
	subHandler                          // what its parent is called for
	activityHandler                     // the operator itself
)

func (k handlerKind) String() string {
	return [...]string{
		"a handler for causes", "an OnEvent handler", "an OnReconcile handler", "an index", "a daemon", "a timer", "a sub-handler", "an activity",
	}[k]
}

func (d *declaration) apply(opts []HandlerOption) {
	for _, opt := range opts {
		if opt != nil {
			opt(d)
		}
	}
}

// takes tells the mistake of giving an option to a handler that has no use for it.
func (d *declaration) requireKind(option string, by ...handlerKind) {
	if !slices.Contains(by, d.handlerKind) {
		d.addErrorf("%s means nothing to %s: leave it out", option, d.handlerKind)
	}
}

func (d *declaration) addErrorf(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(format, args...))
}

func (d *declaration) checkDuration(option string, value time.Duration) {
	if value < 0 {
		d.addErrorf("%s is negative (%s): use a duration of zero or more", option, value)
	}
	d.checkUnit(option, value)
}

// unit reports a duration without a unit.
func (d *declaration) checkUnit(option string, value time.Duration) {
	if err := validation.Duration(value); err != nil {
		d.addErrorf("%s is %w", option, err)
	}
}

func (d *declaration) hasReason(reason Reason) bool {
	return slices.Contains(d.Reasons, string(reason))
}

// fullID is what the handler is known by on the objects: that of a handler for a field ends with it, as
// in kopf (HND-03).
func (d *declaration) fullID() string {
	if d.Field == nil || d.id == "" || d.isForCondition() || slices.Contains([]handlerKind{subHandler, indexHandler}, d.handlerKind) {
		return d.id
	}
	return d.id + "/" + strings.Join(d.Field.Path, ".")
}

// where names the handler in an error.
func (d *declaration) displayName() string { return fmt.Sprintf("%s(%q)", d.method, d.id) }
