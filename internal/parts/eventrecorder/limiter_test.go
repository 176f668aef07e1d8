package eventrecorder_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
)

// event returns an Event with a unique object version.
func event(n int) eventrecorder.SeriesKey {
	return eventrecorder.SeriesKey{Type: "Warning", Reason: "Retry", Action: "Retry", ResourceVersion: fmt.Sprint(n)}
}

// allowed calls Allow for n Events about an object. It returns the number of allowed Events and the number of dropped Events that Allow has reported.
func allowed(q *eventrecorder.Limiter, uid types.UID, n int, priority eventrecorder.Priority) (ok, dropped int) {
	for i := range n {
		permit, posted, _ := q.Allow(uid, event(i), "a note", priority)
		if posted {
			ok++
			dropped += permit.Dropped
		}
	}
	return ok, dropped
}

// allow reports whether an Event is allowed.
func allow(q *eventrecorder.Limiter, uid types.UID, event eventrecorder.SeriesKey, priority eventrecorder.Priority) bool {
	_, ok, _ := q.Allow(uid, event, "a note", priority)
	return ok
}

func expect(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{Burst: 20}
		ok, _ := allowed(&q, "noisy", 100, eventrecorder.Detail)
		expect(t, "POST-08 a burst", ok, 12)
		ok, _ = allowed(&q, "quiet", 1, eventrecorder.Detail)
		expect(t, "POST-08 another object", ok, 1)
		ok, dropped := allowed(&q, "noisy", 100, eventrecorder.Problem)
		expect(t, "POST-08 a burst of Warnings", ok, 4)
		expect(t, "POST-08 reported drops before a Warning", dropped, 88)
		ok, dropped = allowed(&q, "noisy", 100, eventrecorder.Transition)
		expect(t, "POST-08 a burst of transitions", ok, 4)
		expect(t, "POST-08 reported drops before a transition", dropped, 96)

		<-time.After(25*time.Minute - time.Second)
		ok, _ = allowed(&q, "noisy", 100, eventrecorder.Problem)
		expect(t, "within the reserve of transitions", ok, 0)
		<-time.After(time.Second)
		ok, _ = allowed(&q, "noisy", 100, eventrecorder.Detail)
		expect(t, "within the reserve of Warnings", ok, 0)
		ok, dropped = allowed(&q, "noisy", 100, eventrecorder.Problem)
		expect(t, "one more Warning after an interval", ok, 1)
		expect(t, "reported drops after an interval", dropped, 96+100+100)
		<-time.After(24*time.Minute + 59*time.Second)
		ok, _ = allowed(&q, "noisy", 100, eventrecorder.Detail)
		expect(t, "within the reserve of Warnings", ok, 0)
		<-time.After(time.Second)
		ok, _ = allowed(&q, "noisy", 100, eventrecorder.Detail)
		expect(t, "one more after an interval", ok, 1)

		<-time.After(24 * time.Hour)
		ok, _ = allowed(&q, "noisy", 100, eventrecorder.Detail)
		expect(t, "allowed after a day", ok, 12)
	})
}

// In any pattern, at most 32 Events about an object are posted in any hour.
func TestLimiter_AnyHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{Burst: 20}
		var times []time.Time
		<-time.After(time.Hour)
		for n := range 8 * 3600 {
			if n%7200 > 5000 {
				<-time.After(time.Second) // pause between bursts
				continue
			}
			if allow(&q, "noisy", event(n), eventrecorder.Priority(n%3)) {
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
			if in > 32 {
				t.Fatalf("%d Events in the hour from %s, want at most 32", in, from)
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
		counting, writing := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}, eventrecorder.Limiter{Burst: 20}
		counted, written := 0, 0
		for range 600 {
			if allow(&counting, "a", event(1), eventrecorder.Detail) {
				counted++
			}
			if allow(&writing, "a", event(1), eventrecorder.Detail) {
				written++
			}
			<-time.After(time.Minute)
		}
		expect(t, "POST-08 with series", counted, 600)
		if written > 12+10*12 {
			t.Errorf("got %d written Events in ten hours, want at most 132", written)
		}
		expect(t, "different Events", first(allowed(&counting, "a", 100, eventrecorder.Detail)), 12)

		burst := 0
		for range 1000 {
			if allow(&counting, "b", event(1), eventrecorder.Detail) {
				burst++
			}
		}
		expect(t, "POST-08 a burst within a series", burst, 2)
	})
}

func first(a, _ int) int { return a }

func TestLimiter_Sweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{Burst: 20}
		for n := range 10_000 {
			allow(&q, types.UID(fmt.Sprint(n)), event(0), eventrecorder.Detail)
			<-time.After(time.Second)
		}
		// The budget after one Event is complete again after five minutes.
		if n := q.Len(); n > 1000 {
			t.Errorf("%d objects have a budget, want at most 1000", n)
		}
		q.Forget("9999")
		q.Forget("none")
		before := q.Len()
		allow(&q, "9999", event(0), eventrecorder.Detail)
		expect(t, "a budget after Forget", q.Len(), before+1)
	})
}

// The recorder merges Events that differ only in their notes into one with the first note, so each note has its own variant of the action.
func TestLimiter_VariantsOfNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}
		variant := func(of eventrecorder.SeriesKey, note string) int {
			t.Helper()
			permit, ok, _ := q.Allow("a", of, note, eventrecorder.Detail)
			if !ok {
				t.Fatalf("the limiter must allow %q", note)
			}
			return permit.Variant
		}
		expect(t, "the first note", variant(event(1), "disk a"), 1)
		expect(t, "another note", variant(event(1), "disk b"), 2)
		expect(t, "a third note", variant(event(1), "disk c"), 3)
		expect(t, "the first note again", variant(event(1), "disk a"), 1)
		expect(t, "the second note again", variant(event(1), "disk b"), 2)
		expect(t, "another version of the object", variant(event(2), "disk b"), 1)

		<-time.After(12*time.Minute - time.Second)
		expect(t, "a note that the recorder may remember", variant(event(1), "disk d"), 4)
		<-time.After(time.Second)
		expect(t, "a note after the recorder has forgotten the others", variant(event(1), "disk e"), 5)
		<-time.After(12 * time.Minute)
		expect(t, "a note after the recorder has forgotten all", variant(event(1), "disk f"), 1)

		written := eventrecorder.Limiter{Burst: 20} // for a recorder that writes each Event
		for _, note := range []string{"disk a", "disk b"} {
			permit, _, _ := written.Allow("a", event(1), note, eventrecorder.Detail)
			expect(t, "without series", permit.Variant, 1)
		}
	})
}

// Several series at the same time do not use the budget, for example of timers with different Events.
func TestLimiter_SeveralSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}
		counted := 0
		for range 100 {
			for n := range 4 {
				if allow(&q, "a", event(n), eventrecorder.Detail) {
					counted++
				}
				<-time.After(15 * time.Second)
			}
		}
		expect(t, "POST-08 four series", counted, 400)
	})
}

// The number of dropped Events is only in the note of a new Event: the recorder does not write the note of a repeated one.
func TestLimiter_ReportsDropsInNewNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}
		for range 3 {
			allow(&q, "a", event(1), eventrecorder.Detail)
			<-time.After(time.Second)
		}
		allowed(&q, "a", 100, eventrecorder.Detail) // ten are allowed
		<-time.After(time.Minute)
		permit, ok, _ := q.Allow("a", event(1), "a note", eventrecorder.Detail)
		if !ok {
			t.Fatal("the limiter must allow an Event of a series")
		}
		expect(t, "a repeated Event", permit.Dropped, 0)
		permit, _, _ = q.Allow("a", event(1), "a Warning", eventrecorder.Problem)
		if permit.Dropped < 80 {
			t.Errorf("a new Event reports %d dropped ones, want at least 80", permit.Dropped)
		}
	})
}

func TestLimiter_Size(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ burst, details, warnings, all int }{{100, 60, 80, 100}, {5, 3, 4, 5}, {4, 4, 4, 4}, {1, 1, 1, 1}} {
			q := eventrecorder.Limiter{Burst: test.burst, Interval: time.Second}
			for priority, want := range map[eventrecorder.Priority]int{
				eventrecorder.Detail: test.details, eventrecorder.Problem: test.warnings, eventrecorder.Transition: test.all,
			} {
				uid := types.UID(fmt.Sprint(test.burst, priority))
				expect(t, fmt.Sprintf("burst %d, priority %d", test.burst, priority), first(allowed(&q, uid, 1000, priority)), want)
				<-time.After(10 * time.Second)
				expect(t, "after ten intervals", first(allowed(&q, uid, 1000, priority)), min(want, 10))
			}
		}
	})
}

// The first drop of an object is reported once, until its budget is full again.
func TestLimiter_FirstDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}
		drops := func(uid types.UID) (n int) {
			for i := range 100 {
				if _, _, first := q.Allow(uid, event(i), "a note", eventrecorder.Detail); first {
					n++
				}
			}
			return n
		}
		expect(t, "the first burst", drops("a"), 1)
		expect(t, "the second burst", drops("a"), 0)
		expect(t, "another object", drops("b"), 1)
		<-time.After(3 * time.Hour)
		q.Sweep()
		expect(t, "after a pause", drops("a"), 1)
		for range 100 { // the recorder counts all but two, so nothing is lost
			if _, _, first := q.Allow("c", event(1), "a note", eventrecorder.Detail); first {
				t.Fatal("an Event of a series must not be reported as dropped")
			}
		}
	})
}

// Sweep removes the budgets of 50 000 existing objects with one Event each, without another Event.
func TestLimiter_SweepExistingObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}
		const objects = 50_000
		for n := range objects {
			allow(&q, types.UID(fmt.Sprint(n)), event(0), eventrecorder.Detail)
		}
		for range 11 {
			<-time.After(time.Minute)
			q.Sweep()
			expect(t, "while the recorder may remember the Event", q.Len(), objects)
		}
		<-time.After(time.Minute)
		q.Sweep()
		expect(t, "after twelve minutes", q.Len(), 0)
	})
}

// Sweep keeps the budget of an object with an active series. Otherwise the next Event would cause another write.
func TestLimiter_KeepsActiveSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}
		for range 2 {
			allow(&q, "a", event(1), eventrecorder.Detail)
		}
		<-time.After(20 * time.Minute)
		for range 2 {
			allow(&q, "a", event(1), eventrecorder.Detail)
		}
		for range 100 { // the recorder only counts these
			<-time.After(5 * time.Minute)
			q.Sweep()
			expect(t, "during the series", q.Len(), 1)
			if !allow(&q, "a", event(1), eventrecorder.Detail) {
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
		q := eventrecorder.Limiter{Burst: 20}
		allowed(&q, "noisy", 100, eventrecorder.Transition)
		<-time.After(99 * time.Minute)
		q.Sweep()
		expect(t, "before the burst is complete", q.Len(), 1)
		<-time.After(2 * time.Minute)
		q.Sweep()
		expect(t, "after the burst is complete", q.Len(), 0)
	})
}
