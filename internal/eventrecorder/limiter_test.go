package eventrecorder_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
)

// event returns an Event with a unique object version.
func event(n int) eventrecorder.SeriesKey {
	return eventrecorder.SeriesKey{Type: "Warning", Reason: "Retry", Action: "Retry", ResourceVersion: fmt.Sprint(n)}
}

// allowed calls Allow for n Events about an object. It returns the number of allowed Events and the number of dropped Events that Allow has reported.
func allowed(q *eventrecorder.Limiter, uid types.UID, n int, urgent bool) (ok, dropped int) {
	for i := range n {
		before, posted := q.Allow(uid, event(i), urgent)
		if posted {
			ok++
			dropped += before
		}
	}
	return ok, dropped
}

func expect(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		ok, _ := allowed(&q, "noisy", 100, false)
		expect(t, "POST-08 a burst", ok, 12)
		ok, _ = allowed(&q, "quiet", 1, false)
		expect(t, "POST-08 another object", ok, 1)
		dropped, posted := q.Allow("noisy", event(0), true)
		expect(t, "POST-08 reported drops before an urgent Event", dropped, 88)
		if !posted {
			t.Error("the limiter must allow an urgent Event")
		}
		ok, _ = allowed(&q, "noisy", 100, true)
		expect(t, "POST-08 a burst of urgent Events", ok, 3)

		<-time.After(25*time.Minute - time.Second)
		ok, _ = allowed(&q, "noisy", 100, false)
		expect(t, "within the urgent reserve", ok, 0)
		<-time.After(time.Second)
		ok, dropped = allowed(&q, "noisy", 100, false)
		expect(t, "one more after an interval", ok, 1)
		expect(t, "reported drops after an interval", dropped, 97+100)

		<-time.After(24 * time.Hour)
		ok, _ = allowed(&q, "noisy", 100, false)
		expect(t, "allowed after a day", ok, 12)
	})
}

// In any pattern, at most 28 Events about an object are posted in any hour.
func TestLimiter_AnyHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		var times []time.Time
		<-time.After(time.Hour)
		for n := range 8 * 3600 {
			if n%7200 > 5000 {
				<-time.After(time.Second) // pause between bursts
				continue
			}
			if _, ok := q.Allow("noisy", event(n), n%3 == 0); ok {
				times = append(times, time.Now())
			}
			<-time.After(time.Second)
		}
		for i, from := range times {
			in := 0
			for _, at := range times[i:] {
				if at.Sub(from) < time.Hour {
					in++
				}
			}
			if in > 28 {
				t.Fatalf("%d Events in the hour from %s, want at most 28", in, from)
			}
		}
		if len(times) < 8*12 {
			t.Errorf("got %d Events in eight hours, want at least 96", len(times))
		}
	})
}

// Events that the recorder only counts do not use the budget. A timer may therefore post the same Event every minute.
func TestLimiter_SeriesDoesNotUseBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counting, writing := eventrecorder.Limiter{AggregatesSeries: true}, eventrecorder.Limiter{}
		counted, written := 0, 0
		for range 600 {
			if _, ok := counting.Allow("a", event(1), false); ok {
				counted++
			}
			if _, ok := writing.Allow("a", event(1), false); ok {
				written++
			}
			<-time.After(time.Minute)
		}
		expect(t, "POST-08 with series", counted, 600)
		if written > 12+10*12 {
			t.Errorf("got %d written Events in ten hours, want at most 132", written)
		}
		expect(t, "different Events", first(allowed(&counting, "a", 100, false)), 12)

		burst := 0
		for range 1000 {
			if _, ok := counting.Allow("b", event(1), false); ok {
				burst++
			}
		}
		expect(t, "POST-08 a burst within a series", burst, 2)
	})
}

func first(a, _ int) int { return a }

func TestLimiter_Sweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		for n := range 10_000 {
			q.Allow(types.UID(fmt.Sprint(n)), event(0), false)
			<-time.After(time.Second)
		}
		// The budget after one Event is complete again after five minutes.
		if n := q.Len(); n > 1000 {
			t.Errorf("%d objects have a budget, want at most 1000", n)
		}
		q.Forget("9999")
		q.Forget("none")
		before := q.Len()
		q.Allow("9999", event(0), false)
		expect(t, "a budget after Forget", q.Len(), before+1)
	})
}

// Sweep removes the budgets of 50 000 existing objects with one Event each, without another Event.
func TestLimiter_SweepExistingObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true}
		const objects = 50_000
		for n := range objects {
			q.Allow(types.UID(fmt.Sprint(n)), event(0), false)
		}
		for range 5 {
			<-time.After(time.Minute)
			q.Sweep()
			expect(t, "within five minutes", q.Len(), objects)
		}
		<-time.After(time.Minute)
		q.Sweep()
		expect(t, "after six minutes", q.Len(), 0)
	})
}

// Sweep keeps the budget of an object with an active series. Otherwise the next Event would cause another write.
func TestLimiter_KeepsActiveSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true}
		for range 2 {
			q.Allow("a", event(1), false)
		}
		<-time.After(20 * time.Minute)
		for range 2 {
			q.Allow("a", event(1), false)
		}
		for range 100 { // the recorder only counts these
			<-time.After(5 * time.Minute)
			q.Sweep()
			expect(t, "during the series", q.Len(), 1)
			if _, ok := q.Allow("a", event(1), false); !ok {
				t.Fatal("the limiter must allow an Event of a series")
			}
		}
		<-time.After(20 * time.Minute)
		q.Sweep()
		expect(t, "after the end of the series", q.Len(), 0)
	})
}

func TestLimiter_SweepSpentBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		allowed(&q, "noisy", 100, true)
		<-time.After(79 * time.Minute)
		q.Sweep()
		expect(t, "before the burst is complete", q.Len(), 1)
		<-time.After(2 * time.Minute)
		q.Sweep()
		expect(t, "after the burst is complete", q.Len(), 0)
	})
}
