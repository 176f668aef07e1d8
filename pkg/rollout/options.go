package rollout

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// The defaults of [Options].
const (
	DefaultCanaries    = 0.05
	DefaultMaxParallel = 10
	DefaultHaltAt      = 0.2
	DefaultDeadline    = time.Hour
	DefaultName        = "kopf-rollout"
)

// Options say how an operator takes new revisions of its handlers to the existing objects. Each kind has a rollout of its own. With
// sharding, everything holds for each shard, but a halt of one shard stops all of them.
type Options struct {
	// Canaries is the part of the objects that comes first, from 0 to 1, but at least one object. The choice depends only on the objects'
	// uids. Default, also for 0: 0.05.
	Canaries float64
	// Soak is how long the others wait after the last canary has finished. Default: no time.
	Soak time.Duration
	// MaxParallel is how many objects may be unfinished at the same time. Objects past their Deadline don't count. Default: 10.
	MaxParallel int
	// HaltAt is the part of the canaries, and later of all objects so far, that may fail before the rollout halts, from 0 to 1. A single
	// failure halts it only if there is no other object. An object has failed if a handler of a revision has failed permanently, or past
	// the Deadline. Default, also for 0: 0.2.
	HaltAt float64
	// Deadline is how long an object may take before it counts as failed and no longer takes up a place. Its handlers go on. Default: an
	// hour.
	Deadline time.Duration
	// Window is when the rollout may begin with objects. Default: at any time.
	Window Window
	// OptOut is the key of an annotation with which people keep objects out of rollouts. With the value "now", an object is next, and
	// with "false", the annotation has no effect; any other value keeps the object at its revision. Default: none.
	OptOut string
	// Name is the name of the ConfigMap that contains the state. Operators of different kinds can share one. Default: "kopf-rollout".
	Name string
	// Namespace is the namespace of the ConfigMap. Default: the operator's, from the environment variable POD_NAMESPACE or the pod's
	// service account.
	Namespace string
}

// A Window is a time of the day. The zero Window is open at any time.
type Window struct {
	// From and To are times since midnight, as on the clock. If To isn't after From, the window ends on the next day.
	From, To time.Duration
	// Days are the days on which the window opens. Default: all.
	Days []time.Weekday
	// Location is the time zone. Default: UTC.
	Location *time.Location
}

// WithDefaults returns the options with the defaults of those that aren't set.
func (o Options) WithDefaults() Options {
	orDefault(&o.Canaries, DefaultCanaries)
	orDefault(&o.MaxParallel, DefaultMaxParallel)
	orDefault(&o.HaltAt, DefaultHaltAt)
	orDefault(&o.Deadline, DefaultDeadline)
	orDefault(&o.Name, DefaultName)
	return o
}

func orDefault[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}

// Check returns an error for each mistake in the options.
func (o Options) Check() error {
	var errs []error
	for name, part := range map[string]float64{"Canaries": o.Canaries, "HaltAt": o.HaltAt} {
		if part < 0 || part > 1 || math.IsNaN(part) {
			errs = append(errs, fmt.Errorf("%s must be a part of the objects from 0 to 1, got %v", name, part))
		}
	}
	if o.MaxParallel < 0 {
		errs = append(errs, fmt.Errorf("MaxParallel must not be negative, got %d", o.MaxParallel))
	}
	for name, value := range map[string]time.Duration{"Soak": o.Soak, "Deadline": o.Deadline, "Window.From": o.Window.From, "Window.To": o.Window.To} {
		if value < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative, got %s", name, value))
		} else if err := validation.DurationUnit(value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %w", name, err))
		}
	}
	if slices.ContainsFunc(o.Window.Days, func(d time.Weekday) bool { return d < time.Sunday || d > time.Saturday }) {
		errs = append(errs, errors.New("the Days of the Window must be days of the week, such as time.Saturday"))
	}
	if o.Window.From >= day || o.Window.To > day {
		errs = append(errs, errors.New("the Window must have times of the day, from 0 to 24 hours"))
	}
	if o.Window.isSet() && o.Window.From == o.Window.To && o.Window.From != 0 {
		errs = append(errs, errors.New("the Window begins and ends at the same time: set another To, or neither"))
	}
	if o.OptOut != "" {
		for _, text := range apivalidation.IsQualifiedName(o.OptOut) {
			errs = append(errs, fmt.Errorf("the annotation OptOut %q is not valid: %s", o.OptOut, text))
		}
	}
	if o.Name != "" {
		for _, text := range apivalidation.IsDNS1123Subdomain(o.Name) {
			errs = append(errs, fmt.Errorf("the Name %q is not valid for a ConfigMap: %s", o.Name, text))
		}
	}
	if o.Namespace != "" {
		for _, text := range apivalidation.IsDNS1123Label(o.Namespace) {
			errs = append(errs, fmt.Errorf("the Namespace %q is not valid: %s", o.Namespace, text))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

const day = 24 * time.Hour

func (w Window) isSet() bool { return w.From != 0 || w.To != 0 || len(w.Days) > 0 }

// IsOpen reports whether the window is open, and when that changes. The time is zero if it never does.
func (w Window) IsOpen(now time.Time) (open bool, until time.Time) {
	if !w.isSet() {
		return true, time.Time{}
	}
	location := w.Location
	if location == nil {
		location = time.UTC
	}
	local := now.In(location)
	for offset := -1; offset <= 7; offset++ { // the window of yesterday may still be open
		opens, closes := w.on(local, offset)
		switch {
		case len(w.Days) > 0 && !slices.Contains(w.Days, opens.Weekday()), !closes.After(now):
		case opens.After(now):
			return false, opens
		default:
			return true, closes
		}
	}
	return false, time.Time{}
}

// on returns when the window opens on a day, and when it closes after that. Times are those on the clock, also on days with 23 or 25 hours.
func (w Window) on(local time.Time, offset int) (opens, closes time.Time) {
	at := func(days int, clock time.Duration) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day()+days, int(clock.Hours()), int(clock.Minutes())%60, int(clock.Seconds())%60, 0, local.Location())
	}
	if w.To > w.From {
		return at(offset, w.From), at(offset, w.To)
	}
	return at(offset, w.From), at(offset+1, w.To)
}
