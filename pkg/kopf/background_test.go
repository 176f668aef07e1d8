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

// accompanied and repeated are resources with one daemon, or one timer, with options.
func accompanied(opts ...kopf.HandlerOption) resources { return things().Daemon("h", nothing, opts...) }

func repeated(every time.Duration, opts ...kopf.HandlerOption) resources {
	return things().Timer("h", every, nothing, opts...)
}

// hourly is a schedule.
type hourly struct{}

func (hourly) Next(from time.Time) time.Time { return from.Truncate(time.Hour).Add(time.Hour) }

func noDelay(client.Object) time.Duration { return 0 }

// Each mistake of daemons and timers is told in one line, as all others are. TIM-18, HND-20.
func TestMistakesOfDaemonsAndTimers(t *testing.T) {
	const second, none = time.Second, time.Duration(0)
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string // in this order
	}{
		// When a timer is called.
		{"a negative interval", repeated(-second), []string{`Thing: Timer("h"): `, "interval is negative (-1s)", "more than zero"}},
		{"no interval", repeated(none), []string{`Thing: Timer("h"): `, "no interval, no Idle and no Schedule", "give it one", "Daemon with an InitialDelay"}},
		{"TIM-10 no interval, but a delay", repeated(none, kopf.InitialDelay(second)), []string{`Timer("h"): `, "no interval", "Daemon with an InitialDelay"}},
		{"an interval as an option", repeated(second, kopf.Interval(second)), []string{`Timer("h"): Interval`, "OnReconcile", "second argument"}},
		{"an interval as an option only", repeated(none, kopf.Idle(second), kopf.Interval(second)), []string{`Timer("h"): Interval`, "second argument"}},
		{"sharp without an interval", repeated(none, kopf.Idle(second), kopf.Sharp()), []string{`Timer("h"): Sharp`, "needs an interval", "leave Sharp out"}},
		{"sharp by a schedule", repeated(none, kopf.Schedule(hourly{}), kopf.Sharp()), []string{`Timer("h"): Sharp`, "needs an interval", "leave Sharp out"}},
		{"an interval and a schedule", repeated(second, kopf.Schedule(hourly{})), []string{`Timer("h"): `, "both an interval and a Schedule", "leave the Schedule out"}},
		{"no schedule", repeated(second, kopf.Schedule(nil)), []string{`Timer("h"): Schedule is nil`, "give it a schedule"}},
		{"idle for no time", repeated(second, kopf.Idle(0)), []string{`Timer("h"): Idle is 0s`, "more than zero"}},
		{"idle for a negative time", repeated(second, kopf.Idle(-second)), []string{`Timer("h"): Idle is -1s`, "more than zero"}},
		{"a negative jitter", repeated(second, kopf.Jitter(-0.1)), []string{`Timer("h"): Jitter is -0.1`, "from 0 to 1"}},
		{"a jitter of more than all", repeated(second, kopf.Jitter(1.1)), []string{`Timer("h"): Jitter is 1.1`, "from 0 to 1"}},
		{"a jitter that is no number", repeated(second, kopf.Jitter(math.NaN())), []string{`Timer("h"): Jitter is NaN`, "from 0 to 1"}},
		{"an infinite jitter", repeated(second, kopf.Jitter(math.Inf(1))), []string{`Timer("h"): Jitter is +Inf`, "from 0 to 1"}},
		{"a jitter of nothing", repeated(none, kopf.Idle(second), kopf.Jitter(0.5)), []string{`Timer("h"): Jitter`, "fraction of an interval", "leave Jitter out"}},
		{"for no object at a time", repeated(second, kopf.MaxParallel(0)), []string{`Timer("h"): MaxParallel is 0`, "one or more"}},
		{"for fewer than none", repeated(second, kopf.MaxParallel(-1)), []string{`Timer("h"): MaxParallel is -1`, "one or more"}},

		// How a daemon begins and ends.
		{"a negative delay", accompanied(kopf.InitialDelay(-second)), []string{`Thing: Daemon("h"): InitialDelay is negative (-1s)`, "zero or more"}},
		{"a negative delay of a timer", repeated(second, kopf.InitialDelay(-second)), []string{`Timer("h"): InitialDelay is negative`, "zero or more"}},
		{"no function for the delay", accompanied(kopf.InitialDelayFunc(nil)), []string{`Daemon("h"): InitialDelayFunc is nil`, "use InitialDelay"}},
		{"a negative patience", accompanied(kopf.CancellationBackoff(-second)), []string{`Daemon("h"): CancellationBackoff is negative`, "zero or more"}},
		{"a negative time to stop", accompanied(kopf.CancellationTimeout(-second)), []string{`Daemon("h"): CancellationTimeout is negative`, "zero or more"}},
		{"no policy", accompanied(kopf.Restart(7)), []string{`Daemon("h"): Restart(7)`, "RestartNever, RestartOnFailure or RestartAlways"}},
		{"a negative policy", accompanied(kopf.Restart(-1)), []string{`Daemon("h"): Restart(-1)`, "RestartNever, RestartOnFailure or RestartAlways"}},

		// Options for others.
		{"TIM-18 a time to stop for a timer", repeated(second, kopf.CancellationTimeout(second)), []string{`Timer("h"): CancellationTimeout`, "a timer", "leave it out"}},
		{"TIM-18 patience with a timer", repeated(second, kopf.CancellationBackoff(second)), []string{`Timer("h"): CancellationBackoff`, "a timer", "leave it out"}},
		{"restarts of a timer", repeated(second, kopf.Restart(daemons.RestartAlways)), []string{`Timer("h"): Restart`, "a timer", "leave it out"}},
		{"the interval of a daemon", accompanied(kopf.Interval(second)), []string{`Daemon("h"): Interval`, "a daemon", "leave it out"}},
		{"a sharp daemon", accompanied(kopf.Sharp()), []string{`Daemon("h"): Sharp`, "a daemon", "leave it out"}},
		{"an idle daemon", accompanied(kopf.Idle(second)), []string{`Daemon("h"): Idle`, "a daemon", "leave it out"}},
		{"the jitter of a daemon", accompanied(kopf.Jitter(0.5)), []string{`Daemon("h"): Jitter`, "a daemon", "leave it out"}},
		{"daemons at a time", accompanied(kopf.MaxParallel(1)), []string{`Daemon("h"): MaxParallel`, "a daemon", "leave it out"}},
		{"the schedule of a daemon", accompanied(kopf.Schedule(hourly{})), []string{`Daemon("h"): Schedule`, "a daemon", "leave it out"}},
		{"a delay of a handler", created(kopf.InitialDelay(second)), []string{`OnCreate("h"): InitialDelay`, "leave it out"}},
		{"a computed delay of a handler", created(kopf.InitialDelayFunc(noDelay)), []string{`OnCreate("h"): InitialDelayFunc`, "leave it out"}},
		{"a sharp handler", leveled(kopf.Sharp()), []string{`OnReconcile("h"): Sharp`, "leave it out"}},
		{"a spy that waits for idle objects", observed(kopf.Idle(0)), []string{`OnEvent("h"): Idle`, "leave it out"}},
		{"restarts of a handler", updated(kopf.Restart(daemons.RestartNever)), []string{`OnUpdate("h"): Restart`, "leave it out"}},
		{"a time to stop for an index", keyed(kopf.CancellationTimeout(second)), []string{`IndexBy("h"): CancellationTimeout`, "leave it out"}},
		{"After of a daemon", accompanied(kopf.After("x")), []string{`Daemon("h"): After`, "a daemon", "leave it out"}},
		{"After of a timer", repeated(second, kopf.After("x")), []string{`Timer("h"): After`, "a timer", "leave it out"}},
		{"After a daemon", accompanied().OnCreate("g", nothing, kopf.After("h")), []string{`"g"`, `"h"`, "no handler of this kind", "correct the id"}},
		{"Optional of a daemon", accompanied(kopf.Optional()), []string{`Daemon("h"): Optional`, "delete handlers"}},
		{"Optional of a timer", repeated(second, kopf.Optional()), []string{`Timer("h"): Optional`, "delete handlers"}},
		{"EvenIfDeleted of a daemon", accompanied(kopf.EvenIfDeleted()), []string{`Daemon("h"): EvenIfDeleted`, "resume handlers"}},
		{"From of a daemon", accompanied(kopf.Field("spec.size", filter.From(1))), []string{`Daemon("h"): Field("spec.size")`, "From and To", "no old state"}},
		{"To of a timer", repeated(second, kopf.Field("spec.size", filter.To(1))), []string{`Timer("h"): Field("spec.size")`, "From and To", "no old state"}},
		{"a field of a daemon that is unknown", accompanied(kopf.Field("spec.sise")), []string{`Daemon("h"): Field("spec.sise")`, "no field spec.sise"}},
		{"both backoffs of a timer", repeated(second, kopf.Backoff(second), kopf.BackoffFunc(progress.Exponential(second, second))), []string{`Timer("h"): `, "both Backoff and BackoffFunc"}},

		// Ends of handlers.
		{"CancelOnDelete of a delete handler", deleted(kopf.CancelOnDelete()), []string{`OnDelete("h"): CancelOnDelete`, "delete handler", "leave it out"}},
		{"CancelOnDelete of a daemon", accompanied(kopf.CancelOnDelete()), []string{`Daemon("h"): CancelOnDelete`, "a daemon", "leave it out"}},
		{"CancelOnDelete of a timer", repeated(second, kopf.CancelOnDelete()), []string{`Timer("h"): CancelOnDelete`, "a timer", "leave it out"}},
		{"CancelOnDelete of a spy", observed(kopf.CancelOnDelete()), []string{`OnEvent("h"): CancelOnDelete`, "leave it out"}},

		// Ids and functions.
		{"HND-20 one id for a daemon and a timer", accompanied().Timer("h", second, nothing), []string{`Timer("h"): `, `"h"`, "used twice", "another id"}},
		{"HND-20 one id for a timer and a daemon", repeated(second).Daemon("h", nothing), []string{`Daemon("h"): `, "used twice", "another id"}},
		{"HND-20 one id for two daemons", accompanied().Daemon("h", nothing), []string{`Daemon("h"): `, "used twice", "another id"}},
		{"HND-20 one id for a daemon and a handler", created().Daemon("h", nothing), []string{`Daemon("h"): `, "used twice", "another id"}},
		{"no id", things().Daemon("", nothing), []string{`Daemon(""): `, "empty", "give it a name"}},
		{"no id of a timer", things().Timer("", second, nothing), []string{`Timer(""): `, "empty", "give it a name"}},
		{"no daemon", things().Daemon("h", nil), []string{`Daemon("h"): `, "nil", "give it a function"}},
		{"no timer", things().Timer("h", second, nil), []string{`Timer("h"): `, "nil", "give it a function"}},
	} {
		t.Run(test.name, func(t *testing.T) { isTold(t, test.given, test.words) })
	}

	for _, test := range []struct {
		name  string
		given kopf.Option
	}{
		{"a daemon", accompanied()},
		{"a daemon with all that it may have", accompanied(kopf.InitialDelay(second), kopf.CancellationBackoff(0), kopf.CancellationTimeout(0),
			kopf.Restart(daemons.RestartOnFailure), kopf.Retries(1), kopf.Timeout(second), kopf.AttemptTimeout(second), kopf.Backoff(0), kopf.ErrorMode(progress.ErrorsIgnored),
			kopf.Label("a"), kopf.Annotation("a"), kopf.Field("spec.size", filter.Equal(1)), kopf.OwnedBy(&thing{}))},
		{"a daemon that is always started again", accompanied(kopf.Restart(daemons.RestartAlways))},
		{"a computed delay", accompanied(kopf.InitialDelayFunc(noDelay))},
		{"a timer", repeated(second)},
		{"a timer with all that it may have", repeated(second, kopf.Sharp(), kopf.Idle(second), kopf.Jitter(1), kopf.MaxParallel(1),
			kopf.InitialDelayFunc(noDelay), kopf.Retries(1), kopf.Timeout(second), kopf.AttemptTimeout(second),
			kopf.BackoffFunc(progress.Exponential(second, second)), kopf.ErrorMode(progress.ErrorsPermanent), kopf.Label("a"), kopf.Annotation("a"),
			kopf.Field("spec.size"), kopf.OwnedBy(&thing{}))},
		{"TIM-09 a timer for idle objects", repeated(none, kopf.Idle(second), kopf.Jitter(0))},
		{"a timer by a schedule", repeated(none, kopf.Schedule(hourly{}), kopf.Jitter(0.5), kopf.Idle(second))},
		{"HND-03 one id with and without a field", accompanied().Timer("h", second, nothing, kopf.Field("spec.size"))},
		{"CancelOnDelete of handlers for other causes", created(kopf.CancelOnDelete()).OnReconcile("l", nothing, kopf.CancelOnDelete()).
			OnField("f", "spec.size", nothing, kopf.CancelOnDelete())},
		{"CancelOnDelete of a handler for deletions among others", things().
			On("h", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, nothing, kopf.CancelOnDelete())},
	} {
		t.Run("no mistake: "+test.name, func(t *testing.T) { isNoMistake(t, test.given) })
	}
}

// All mistakes are told at once: nobody has to try again and again.
func TestAllMistakesOfATimerAreToldAtOnce(t *testing.T) {
	err := kopf.New(manage(), repeated(0, kopf.Sharp(), kopf.Jitter(2), kopf.MaxParallel(0), kopf.Restart(daemons.RestartAlways))).CheckDeclaration()
	if err == nil {
		t.Fatal("it is valid")
	}
	equal(t, "mistakes", err.Error(), `the operator cannot start:
Thing: Timer("h"): Jitter is 2: use a fraction from 0 to 1
Thing: Timer("h"): MaxParallel is 0: use one or more
Thing: Timer("h"): Restart means nothing to a timer: leave it out
Thing: Timer("h"): it has no interval, no Idle and no Schedule: give it one; for a single call use a Daemon with an InitialDelay
Thing: Timer("h"): Sharp needs an interval: give it one, or leave Sharp out
Thing: Timer("h"): Jitter is a fraction of an interval: give it one or a Schedule, or leave Jitter out`)
}
