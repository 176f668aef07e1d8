package clusterevents

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// DefaultInterval is the default of [Selector.Interval].
const DefaultInterval = time.Minute

// A Selector selects Events. The zero value selects all new Events about the resource's objects, except for those that operators with this
// library have posted.
type Selector struct {
	// About lists the kinds of the objects that the Events are about: the kind of the resource, or kinds of its dependents. The operator
	// watches the Events about each kind, and reads the metadata of dependents to find their owner. Default: the kind of the resource.
	About []client.Object
	// Through lists the kinds between the object and the dependents in the chain of owner references. If the object owns a Deployment and
	// About is Pod, these are ReplicaSet and Deployment. Default: none, which means that the object owns the dependents directly.
	Through []client.Object
	// Reasons lists the reasons of the Events, such as "FailedScheduling" and "BackOff". Default: all reasons.
	Reasons []string
	// WarningsOnly selects only Events of the type Warning.
	WarningsOnly bool
	// Since is the maximum age of Events from before the operator's start, or from a pause. If it is positive, the operator stores the
	// newest handled Events, and earlier ones that are still waiting, in the object's annotation "kopf-runtime.dev/events.<id of the
	// handler>", so that a restart doesn't repeat handled Events. If About has several kinds, each of them has its own annotation. This
	// costs one write for each Event. Default: 0, which ignores such Events and stores nothing.
	Since time.Duration
	// Interval is the minimum time between two calls for the same recurring Event. Default: [DefaultInterval].
	Interval time.Duration
	// OwnEvents also selects Events that operators with this library have posted, including this one. A handler that posts an Event in each
	// call then triggers itself forever.
	OwnEvents bool
}

// Check returns all errors in the selector, joined.
func (s Selector) Check() error {
	var errs []error
	for _, list := range []struct {
		field string
		kinds []client.Object
	}{{"About", s.About}, {"Through", s.Through}} {
		for _, obj := range list.kinds {
			if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
				errs = append(errs, fmt.Errorf("%s has a nil object: use an empty object of the kind, such as &corev1.Pod{}", list.field))
			}
		}
	}
	if len(s.Through) > 0 && len(s.About) == 0 {
		errs = append(errs, errors.New("the selector has Through without About, which has no effect: add the kinds of the dependents, or remove Through"))
	}
	if slices.Contains(s.Reasons, "") {
		errs = append(errs, errors.New("one of the Reasons is empty: remove it"))
	}
	for _, duration := range []struct {
		field string
		value time.Duration
	}{{"Since", s.Since}, {"Interval", s.Interval}} {
		if duration.value < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative, got %s", duration.field, duration.value))
		}
		if err := validation.DurationUnit(duration.value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %w", duration.field, err))
		}
	}
	return errors.Join(errs...)
}

// String describes the type and the reasons of the selected Events, such as "Warning Events with the reason BackOff or Failed".
func (s Selector) String() string {
	text := "Events"
	if s.WarningsOnly {
		text = "Warning Events"
	}
	if len(s.Reasons) > 0 {
		text += " with the reason " + strings.Join(s.Reasons, " or ")
	}
	return text
}
