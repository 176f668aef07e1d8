package kopf_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// daemon and timer return resources with one daemon or one timer.
func daemon(opts ...kopf.HandlerOption) resources {
	return newThings().Daemon("h", daemons.Daemon{}, noop, opts...)
}

func daemonWith(settings daemons.Daemon) resources { return newThings().Daemon("h", settings, noop) }

func timer(interval time.Duration, opts ...kopf.HandlerOption) resources {
	return timerWith(daemons.Timer{Interval: interval}, opts...)
}

func timerWith(settings daemons.Timer, opts ...kopf.HandlerOption) resources {
	return newThings().Timer("h", settings, noop, opts...)
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
		{"a negative interval", timer(-second), []string{`Thing: Timer("h"): `, "Interval must not be negative, got -1s"}},
		{"no interval", timer(none), []string{`Thing: Timer("h"): `, "needs an Interval, an Idle or a Schedule", "set one", "daemon with an InitialDelay"}},
		{"TIM-10 a delay without an interval", timer(none, kopf.InitialDelay(second)), []string{`Timer("h"): `, "needs an Interval", "daemon with an InitialDelay"}},
		{"Sharp without an interval", timerWith(daemons.Timer{Idle: second, Sharp: true}), []string{`Timer("h"): Sharp`, "needs an Interval", "remove Sharp"}},
		{"Sharp with a schedule", timerWith(daemons.Timer{Schedule: hourly{}, Sharp: true}), []string{`Timer("h"): Sharp`, "needs an Interval", "remove Sharp"}},
		{"an interval and a schedule", timerWith(daemons.Timer{Interval: second, Schedule: hourly{}}), []string{`Timer("h"): `, "Interval and Schedule are mutually exclusive", "remove one"}},
		{"a negative idle time", timerWith(daemons.Timer{Interval: second, Idle: -second}), []string{`Timer("h"): Idle must not be negative, got -1s`}},
		{"a nil pointer as the schedule", timerWith(daemons.Timer{Interval: second, Schedule: (*hourly)(nil)}), []string{`Timer("h"): Schedule is a nil pointer`, "set a schedule"}},
		{"the last call", timerWith(daemons.Timer{Interval: second, Last: time.Unix(1, 0)}), []string{`Timer("h"): Last is set`, "remove it"}},
		{"an anchor without Sharp", timerWith(daemons.Timer{Interval: second, Anchor: time.Unix(1, 0)}), []string{`Timer("h"): Anchor`, "set Sharp or remove Anchor"}},
		{"a negative jitter", timerWith(daemons.Timer{Interval: second, Jitter: -0.1}), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got -0.1`}},
		{"a jitter above 1", timerWith(daemons.Timer{Interval: second, Jitter: 1.1}), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got 1.1`}},
		{"a jitter that is not a number", timerWith(daemons.Timer{Interval: second, Jitter: math.NaN()}), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got NaN`}},
		{"an infinite jitter", timerWith(daemons.Timer{Interval: second, Jitter: math.Inf(1)}), []string{`Timer("h"): Jitter must be a fraction from 0 to 1, got +Inf`}},
		{"a jitter without an interval", timerWith(daemons.Timer{Idle: second, Jitter: 0.5}), []string{`Timer("h"): Jitter`, "needs an Interval or a Schedule", "remove Jitter"}},
		{"a negative MaxParallel", timerWith(daemons.Timer{Interval: second, MaxParallel: -1}), []string{`Timer("h"): MaxParallel must not be negative, got -1`, "leave it out"}},

		// Starts and stops.
		{"a negative delay", daemon(kopf.InitialDelay(-second)), []string{`Thing: Daemon("h"): InitialDelay must not be negative, got -1s`}},
		{"a negative delay of a timer", timer(second, kopf.InitialDelay(-second)), []string{`Timer("h"): InitialDelay must not be negative, got -1s`}},
		{"a nil function for the delay", daemon(kopf.InitialDelayFunc(nil)), []string{`Daemon("h"): InitialDelayFunc is nil`, "use InitialDelay"}},
		{"a negative CancellationBackoff", daemonWith(daemons.Daemon{CancellationBackoff: new(-second)}), []string{`Daemon("h"): CancellationBackoff must not be negative, got -1s`}},
		{"a negative CancellationTimeout", daemonWith(daemons.Daemon{CancellationTimeout: new(-second)}), []string{`Daemon("h"): CancellationTimeout must not be negative, got -1s`}},
		{"an unknown restart policy", daemonWith(daemons.Daemon{Restart: 7}), []string{`Daemon("h"): Restart has the invalid value 7`, "RestartNever, RestartOnFailure or RestartAlways"}},
		{"a negative restart policy", daemonWith(daemons.Daemon{Restart: -1}), []string{`Daemon("h"): Restart has the invalid value -1`, "RestartNever, RestartOnFailure or RestartAlways"}},

		// Options for other kinds of handlers.
		{"Interval of a daemon", daemon(kopf.Interval(second)), []string{`Daemon("h"): Interval`, "has no effect on daemons", "remove it"}},
		{"InitialDelay of a cause handler", onCreate(kopf.InitialDelay(second)), []string{`OnCreate("h"): InitialDelay`, "remove it"}},
		{"InitialDelayFunc of a cause handler", onCreate(kopf.InitialDelayFunc(noDelay)), []string{`OnCreate("h"): InitialDelayFunc`, "remove it"}},
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
		{"HND-20 a daemon and a timer with the same id", daemon().Timer("h", daemons.Timer{Interval: second}, noop), []string{`Timer("h"): `, `"h"`, "used twice", "rename one"}},
		{"HND-20 a timer and a daemon with the same id", timer(second).Daemon("h", daemons.Daemon{}, noop), []string{`Daemon("h"): `, "used twice", "rename one"}},
		{"HND-20 two daemons with the same id", daemon().Daemon("h", daemons.Daemon{}, noop), []string{`Daemon("h"): `, "used twice", "rename one"}},
		{"HND-20 a cause handler and a daemon with the same id", onCreate().Daemon("h", daemons.Daemon{}, noop), []string{`Daemon("h"): `, "used twice", "rename one"}},
		{"no id", newThings().Daemon("", daemons.Daemon{}, noop), []string{`Daemon(""): `, "empty", "set one"}},
		{"no id of a timer", newThings().Timer("", daemons.Timer{Interval: second}, noop), []string{`Timer(""): `, "empty", "set one"}},
		{"a nil daemon", newThings().Daemon("h", daemons.Daemon{}, nil), []string{`Daemon("h"): `, "nil", "pass a function"}},
		{"a nil timer", newThings().Timer("h", daemons.Timer{Interval: second}, nil), []string{`Timer("h"): `, "nil", "pass a function"}},
	} {
		t.Run(test.name, func(t *testing.T) { wantError(t, test.given, test.words) })
	}

	for _, test := range []struct {
		name  string
		given kopf.Option
	}{
		{"a daemon", daemon()},
		{"a daemon with all of its options", newThings().Daemon("h", daemons.Daemon{
			CancellationBackoff: new(none), CancellationTimeout: new(none), Restart: daemons.RestartOnFailure,
		}, noop, kopf.InitialDelay(second), kopf.Retries(1), kopf.Timeout(second), kopf.AttemptTimeout(second), kopf.Backoff(0), kopf.ErrorMode(progress.ErrorsIgnored),
			kopf.Label("a"), kopf.Annotation("a"), kopf.Field("spec.size", filter.Equal(1)), kopf.OwnedBy(&thing{}))},
		{"a daemon that always restarts", daemonWith(daemons.Daemon{Restart: daemons.RestartAlways})},
		{"a computed delay", daemon(kopf.InitialDelayFunc(noDelay))},
		{"a timer", timer(second)},
		{"a timer with all of its options", timerWith(daemons.Timer{Interval: second, Sharp: true, Idle: second, Jitter: 1, MaxParallel: 1},
			kopf.InitialDelayFunc(noDelay), kopf.Retries(1), kopf.Timeout(second), kopf.AttemptTimeout(second),
			kopf.BackoffFunc(progress.Exponential(second, second)), kopf.ErrorMode(progress.ErrorsPermanent), kopf.Label("a"), kopf.Annotation("a"),
			kopf.Field("spec.size"), kopf.OwnedBy(&thing{}))},
		{"TIM-09 a timer for idle objects", timerWith(daemons.Timer{Idle: second, Jitter: 0})},
		{"a timer with a schedule", timerWith(daemons.Timer{Schedule: hourly{}, Jitter: 0.5, Idle: second})},
		{"HND-03 the same id with and without a field", daemon().Timer("h", daemons.Timer{Interval: second}, noop, kopf.Field("spec.size"))},
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
	err := kopf.New(newManager(), timerWith(daemons.Timer{Sharp: true, Jitter: 2, MaxParallel: -1})).CheckDeclaration()
	if err == nil {
		t.Fatal("CheckDeclaration returned no error")
	}
	equal(t, "errors", err.Error(), `the operator cannot start:
Thing: Timer("h"): the timer needs an Interval, an Idle or a Schedule: set one; for a single invocation use a daemon with an InitialDelay
Thing: Timer("h"): Sharp needs an Interval: set one or remove Sharp
Thing: Timer("h"): Jitter must be a fraction from 0 to 1, got 2
Thing: Timer("h"): Jitter needs an Interval or a Schedule: set one or remove Jitter
Thing: Timer("h"): MaxParallel must not be negative, got -1: leave it out for the default 16`)
}

// The times of a sharp timer count from its Anchor, and without one, from the creation of the object.
func TestTimer_Anchor(t *testing.T) {
	for name, test := range map[string]struct {
		anchor time.Duration // after the creation; negative for none
		want   []time.Duration
	}{
		"the creation": {-1, []time.Duration{0, time.Hour}},
		"an anchor":    {20 * time.Minute, []time.Duration{20 * time.Minute, 80 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t)
				began := time.Now().Truncate(time.Second).Add(time.Minute) // stored times have no fractions
				timer := daemons.Timer{Interval: time.Hour, Sharp: true}
				if test.anchor >= 0 {
					timer.Anchor = began.Add(test.anchor)
				}
				var calls []time.Duration
				cluster.Run(t, kopf.For(&corev1.ConfigMap{}).Timer("bill", timer, func(context.Context, *kopf.Request[configMap]) error {
					calls = append(calls, time.Since(began).Truncate(time.Minute))
					return nil
				}))
				<-time.After(time.Until(began))
				cluster.Create(t, newConfigMap("one"))
				<-time.After(90 * time.Minute)
				equal(t, "times of the calls", calls, test.want)
			})
		})
	}
}
