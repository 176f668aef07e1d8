package kopf_test

import (
	"math"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// daemon and timer return resources with one daemon or one timer.
func daemon(opts ...kopf.HandlerOption) resources { return newThings().Daemon("h", noop, opts...) }

func timer(interval time.Duration, opts ...kopf.HandlerOption) resources {
	return newThings().Timer("h", interval, noop, opts...)
}

// hourly is a schedule for every full hour.
type hourly struct{}

func (hourly) Next(from time.Time) time.Time { return from.Truncate(time.Hour).Add(time.Hour) }

func noDelay(client.Object) time.Duration { return 0 }

// Each test case has one error in one line. TIM-18, HND-20.
func TestCheckDeclaration_DaemonsAndTimers(t *testing.T) {
	const second, none = time.Second, time.Duration(0)
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string // words of the error, in this order
	}{
		// Times of calls.
		{"a negative interval", timer(-second), []string{`Thing: Timer("h"): `, "interval must not be negative, got -1s"}},
		{"no interval", timer(none), []string{`Thing: Timer("h"): `, "needs an interval, an Idle or a Schedule", "set one", "Daemon with an InitialDelay"}},
		{"TIM-10 a delay without an interval", timer(none, kopf.InitialDelay(second)), []string{`Timer("h"): `, "needs an interval", "Daemon with an InitialDelay"}},
		{"a second interval as an option", timer(second, kopf.Interval(second)), []string{`Timer("h"): Interval`, "OnReconcile", "second argument"}},
		{"an interval as an option only", timer(none, kopf.Idle(second), kopf.Interval(second)), []string{`Timer("h"): Interval`, "second argument"}},
		{"Sharp without an interval", timer(none, kopf.Idle(second), kopf.Sharp()), []string{`Timer("h"): Sharp`, "needs an interval", "remove Sharp"}},
		{"Sharp with a schedule", timer(none, kopf.Schedule(hourly{}), kopf.Sharp()), []string{`Timer("h"): Sharp`, "needs an interval", "remove Sharp"}},
		{"an interval and a schedule", timer(second, kopf.Schedule(hourly{})), []string{`Timer("h"): `, "the interval and Schedule are mutually exclusive", "remove Schedule"}},
		{"a nil schedule", timer(second, kopf.Schedule(nil)), []string{`Timer("h"): Schedule is nil`, "pass a schedule"}},
		{"an idle time of zero", timer(second, kopf.Idle(0)), []string{`Timer("h"): Idle must be positive, got 0s`}},
		{"a negative idle time", timer(second, kopf.Idle(-second)), []string{`Timer("h"): Idle must be positive, got -1s`}},
		{"a negative jitter", timer(second, kopf.Jitter(-0.1)), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got -0.1`}},
		{"a jitter above 1", timer(second, kopf.Jitter(1.1)), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got 1.1`}},
		{"a jitter that is not a number", timer(second, kopf.Jitter(math.NaN())), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got NaN`}},
		{"an infinite jitter", timer(second, kopf.Jitter(math.Inf(1))), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got +Inf`}},
		{"a jitter without an interval", timer(none, kopf.Idle(second), kopf.Jitter(0.5)), []string{`Timer("h"): Jitter`, "needs an interval or a Schedule", "remove Jitter"}},
		{"a MaxParallel of zero", timer(second, kopf.MaxParallel(0)), []string{`Timer("h"): MaxParallel must be positive, got 0`, "leave it out"}},
		{"a negative MaxParallel", timer(second, kopf.MaxParallel(-1)), []string{`Timer("h"): MaxParallel must be positive, got -1`, "leave it out"}},

		// Starts and stops.
		{"a negative delay", daemon(kopf.InitialDelay(-second)), []string{`Thing: Daemon("h"): InitialDelay must not be negative, got -1s`}},
		{"a negative delay of a timer", timer(second, kopf.InitialDelay(-second)), []string{`Timer("h"): InitialDelay must not be negative, got -1s`}},
		{"a nil function for the delay", daemon(kopf.InitialDelayFunc(nil)), []string{`Daemon("h"): InitialDelayFunc is nil`, "use InitialDelay"}},
		{"a negative CancellationBackoff", daemon(kopf.CancellationBackoff(-second)), []string{`Daemon("h"): CancellationBackoff must not be negative, got -1s`}},
		{"a negative CancellationTimeout", daemon(kopf.CancellationTimeout(-second)), []string{`Daemon("h"): CancellationTimeout must not be negative, got -1s`}},
		{"an unknown restart policy", daemon(kopf.Restart(7)), []string{`Daemon("h"): Restart has the invalid value 7`, "RestartNever, RestartOnFailure or RestartAlways"}},
		{"a negative restart policy", daemon(kopf.Restart(-1)), []string{`Daemon("h"): Restart has the invalid value -1`, "RestartNever, RestartOnFailure or RestartAlways"}},

		// Options for other kinds of handlers.
		{"TIM-18 CancellationTimeout of a timer", timer(second, kopf.CancellationTimeout(second)), []string{`Timer("h"): CancellationTimeout`, "has no effect on timers", "remove it"}},
		{"TIM-18 CancellationBackoff of a timer", timer(second, kopf.CancellationBackoff(second)), []string{`Timer("h"): CancellationBackoff`, "has no effect on timers", "remove it"}},
		{"Restart of a timer", timer(second, kopf.Restart(daemons.RestartAlways)), []string{`Timer("h"): Restart`, "has no effect on timers", "remove it"}},
		{"Interval of a daemon", daemon(kopf.Interval(second)), []string{`Daemon("h"): Interval`, "has no effect on daemons", "remove it"}},
		{"Sharp of a daemon", daemon(kopf.Sharp()), []string{`Daemon("h"): Sharp`, "has no effect on daemons", "remove it"}},
		{"Idle of a daemon", daemon(kopf.Idle(second)), []string{`Daemon("h"): Idle`, "has no effect on daemons", "remove it"}},
		{"Jitter of a daemon", daemon(kopf.Jitter(0.5)), []string{`Daemon("h"): Jitter`, "has no effect on daemons", "remove it"}},
		{"MaxParallel of a daemon", daemon(kopf.MaxParallel(1)), []string{`Daemon("h"): MaxParallel`, "has no effect on daemons", "remove it"}},
		{"Schedule of a daemon", daemon(kopf.Schedule(hourly{})), []string{`Daemon("h"): Schedule`, "has no effect on daemons", "remove it"}},
		{"InitialDelay of a cause handler", onCreate(kopf.InitialDelay(second)), []string{`OnCreate("h"): InitialDelay`, "remove it"}},
		{"InitialDelayFunc of a cause handler", onCreate(kopf.InitialDelayFunc(noDelay)), []string{`OnCreate("h"): InitialDelayFunc`, "remove it"}},
		{"Sharp of a reconcile handler", onReconcile(kopf.Sharp()), []string{`OnReconcile("h"): Sharp`, "remove it"}},
		{"Idle of an event handler", onEvent(kopf.Idle(0)), []string{`OnEvent("h"): Idle`, "remove it"}},
		{"Restart of a cause handler", onUpdate(kopf.Restart(daemons.RestartNever)), []string{`OnUpdate("h"): Restart`, "remove it"}},
		{"CancellationTimeout of an index", indexBy(kopf.CancellationTimeout(second)), []string{`IndexBy("h"): CancellationTimeout`, "remove it"}},
		{"After of a daemon", daemon(kopf.After("x")), []string{`Daemon("h"): After`, "has no effect on daemons", "remove it"}},
		{"After of a timer", timer(second, kopf.After("x")), []string{`Timer("h"): After`, "has no effect on timers", "remove it"}},
		{"After a daemon", daemon().OnCreate("g", noop, kopf.After("h")), []string{`"g"`, `"h"`, "does not refer to a cause handler of the kind", "use one of"}},
		{"Optional of a daemon", daemon(kopf.Optional()), []string{`Daemon("h"): Optional`, "delete handlers"}},
		{"Optional of a timer", timer(second, kopf.Optional()), []string{`Timer("h"): Optional`, "delete handlers"}},
		{"EvenIfDeleted of a daemon", daemon(kopf.EvenIfDeleted()), []string{`Daemon("h"): EvenIfDeleted`, "resume handlers"}},
		{"From of a daemon", daemon(kopf.Field("spec.size", filter.From(1))), []string{`Daemon("h"): Field("spec.size")`, "From and To", "no old state"}},
		{"To of a timer", timer(second, kopf.Field("spec.size", filter.To(1))), []string{`Timer("h"): Field("spec.size")`, "From and To", "no old state"}},
		{"an unknown field of a daemon", daemon(kopf.Field("spec.sise")), []string{`Daemon("h"): Field("spec.sise")`, "no field spec.sise"}},
		{"both backoffs of a timer", timer(second, kopf.Backoff(second), kopf.BackoffFunc(progress.Exponential(second, second))), []string{`Timer("h"): `, "Backoff and BackoffFunc are mutually exclusive", "remove one"}},

		// CancelOnDelete.
		{"CancelOnDelete of a delete handler", onDelete(kopf.CancelOnDelete()), []string{`OnDelete("h"): CancelOnDelete`, "has no effect on delete handlers", "remove it"}},
		{"CancelOnDelete of a daemon", daemon(kopf.CancelOnDelete()), []string{`Daemon("h"): CancelOnDelete`, "has no effect on daemons", "remove it"}},
		{"CancelOnDelete of a timer", timer(second, kopf.CancelOnDelete()), []string{`Timer("h"): CancelOnDelete`, "has no effect on timers", "remove it"}},
		{"CancelOnDelete of an event handler", onEvent(kopf.CancelOnDelete()), []string{`OnEvent("h"): CancelOnDelete`, "remove it"}},

		// Ids and functions.
		{"HND-20 a daemon and a timer with the same id", daemon().Timer("h", second, noop), []string{`Timer("h"): `, `"h"`, "used twice", "rename one"}},
		{"HND-20 a timer and a daemon with the same id", timer(second).Daemon("h", noop), []string{`Daemon("h"): `, "used twice", "rename one"}},
		{"HND-20 two daemons with the same id", daemon().Daemon("h", noop), []string{`Daemon("h"): `, "used twice", "rename one"}},
		{"HND-20 a cause handler and a daemon with the same id", onCreate().Daemon("h", noop), []string{`Daemon("h"): `, "used twice", "rename one"}},
		{"no id", newThings().Daemon("", noop), []string{`Daemon(""): `, "empty", "set one"}},
		{"no id of a timer", newThings().Timer("", second, noop), []string{`Timer(""): `, "empty", "set one"}},
		{"a nil daemon", newThings().Daemon("h", nil), []string{`Daemon("h"): `, "nil", "pass a function"}},
		{"a nil timer", newThings().Timer("h", second, nil), []string{`Timer("h"): `, "nil", "pass a function"}},
	} {
		t.Run(test.name, func(t *testing.T) { wantError(t, test.given, test.words) })
	}

	for _, test := range []struct {
		name  string
		given kopf.Option
	}{
		{"a daemon", daemon()},
		{"a daemon with all of its options", daemon(kopf.InitialDelay(second), kopf.CancellationBackoff(0), kopf.CancellationTimeout(0),
			kopf.Restart(daemons.RestartOnFailure), kopf.Retries(1), kopf.Timeout(second), kopf.AttemptTimeout(second), kopf.Backoff(0), kopf.ErrorMode(progress.ErrorsIgnored),
			kopf.Label("a"), kopf.Annotation("a"), kopf.Field("spec.size", filter.Equal(1)), kopf.OwnedBy(&thing{}))},
		{"a daemon that always restarts", daemon(kopf.Restart(daemons.RestartAlways))},
		{"a computed delay", daemon(kopf.InitialDelayFunc(noDelay))},
		{"a timer", timer(second)},
		{"a timer with all of its options", timer(second, kopf.Sharp(), kopf.Idle(second), kopf.Jitter(1), kopf.MaxParallel(1),
			kopf.InitialDelayFunc(noDelay), kopf.Retries(1), kopf.Timeout(second), kopf.AttemptTimeout(second),
			kopf.BackoffFunc(progress.Exponential(second, second)), kopf.ErrorMode(progress.ErrorsPermanent), kopf.Label("a"), kopf.Annotation("a"),
			kopf.Field("spec.size"), kopf.OwnedBy(&thing{}))},
		{"TIM-09 a timer for idle objects", timer(none, kopf.Idle(second), kopf.Jitter(0))},
		{"a timer with a schedule", timer(none, kopf.Schedule(hourly{}), kopf.Jitter(0.5), kopf.Idle(second))},
		{"HND-03 the same id with and without a field", daemon().Timer("h", second, noop, kopf.Field("spec.size"))},
		{"CancelOnDelete of handlers for other causes", onCreate(kopf.CancelOnDelete()).OnReconcile("l", noop, kopf.CancelOnDelete()).
			OnField("f", "spec.size", noop, kopf.CancelOnDelete())},
		{"CancelOnDelete of a handler for deletions and other reasons", newThings().
			On("h", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, noop, kopf.CancelOnDelete())},
	} {
		t.Run("valid: "+test.name, func(t *testing.T) { wantValid(t, test.given) })
	}
}

// CheckDeclaration returns all errors of a timer together.
func TestCheckDeclaration_AllErrorsOfATimer(t *testing.T) {
	err := kopf.New(newManager(), timer(0, kopf.Sharp(), kopf.Jitter(2), kopf.MaxParallel(0), kopf.Restart(daemons.RestartAlways))).CheckDeclaration()
	if err == nil {
		t.Fatal("CheckDeclaration returned no error")
	}
	equal(t, "errors", err.Error(), `the operator cannot start:
Thing: Timer("h"): Jitter must be a fraction from 0 to 1, got 2
Thing: Timer("h"): MaxParallel must be positive, got 0: leave it out for the default 16
Thing: Timer("h"): Restart has no effect on timers: remove it
Thing: Timer("h"): the timer needs an interval, an Idle or a Schedule: set one; for a single invocation use a Daemon with an InitialDelay
Thing: Timer("h"): Sharp needs an interval: set one or remove Sharp
Thing: Timer("h"): Jitter needs an interval or a Schedule: set one or remove Jitter`)
}
