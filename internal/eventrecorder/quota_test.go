package eventrecorder_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
)

// loud is an Event of an object that changes all the time.
func event(n int) eventrecorder.SeriesKey {
	return eventrecorder.SeriesKey{Type: "Warning", Reason: "Retry", Action: "Retry", ResourceVersion: fmt.Sprint(n)}
}

func allowed(q *eventrecorder.Limiter, uid types.UID, many int, urgent bool) (ok, unsaid int) {
	for n := range many {
		before, can := q.Allow(uid, event(n), urgent)
		if can {
			ok++
			unsaid += before
		}
	}
	return ok, unsaid
}

func expect(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		ok, _ := allowed(&q, "noisy", 100, false)
		expect(t, "POST-08 of a hundred at once", ok, 12)
		ok, _ = allowed(&q, "quiet", 1, false)
		expect(t, "POST-08 another object has its own", ok, 1)
		unsaid, can := q.Allow("noisy", event(0), true)
		expect(t, "POST-08 what was not posted is told by the next one that is", unsaid, 88)
		if !can {
			t.Error("an urgent Event has to wait for others")
		}
		ok, _ = allowed(&q, "noisy", 100, true)
		expect(t, "POST-08 urgent ones, too, are bounded", ok, 3)

		<-time.After(25*time.Minute - time.Second)
		ok, _ = allowed(&q, "noisy", 100, false)
		expect(t, "the first new ones are for urgent ones", ok, 0)
		<-time.After(time.Second)
		ok, unsaid = allowed(&q, "noisy", 100, false)
		expect(t, "one more after a pause", ok, 1)
		expect(t, "none that was not posted is forgotten", unsaid, 97+100)

		<-time.After(24 * time.Hour)
		ok, _ = allowed(&q, "noisy", 100, false)
		expect(t, "after a day", ok, 12)
	})
}

// However they come, an object has no more than 28 in any hour, and the one at its very end.
func TestQuotaOfAnyHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		var times []time.Time
		<-time.After(time.Hour)
		for n := range 8 * 3600 {
			if n%7200 > 5000 {
				<-time.After(time.Second) // quiet for a while
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
				t.Fatalf("%d in the hour from %s", in, from)
			}
		}
		if len(times) < 8*12 {
			t.Errorf("only %d in eight hours", len(times))
		}
	})
}

// What the recorder counts costs nothing: a timer that says the same each minute is not muted.
func TestWhatIsCountedIsFree(t *testing.T) {
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
		expect(t, "POST-08 by a recorder that counts", counted, 600)
		if written > 12+10*12 {
			t.Errorf("by one that does not: %d in ten hours", written)
		}
		expect(t, "what differs is not free", first(allowed(&counting, "a", 100, false)), 12)

		burst := 0
		for range 1000 {
			if _, ok := counting.Allow("b", event(1), false); ok {
				burst++
			}
		}
		expect(t, "POST-08 the queue of the recorder is not filled with one thing", burst, 2)
	})
}

func first(a, _ int) int { return a }

func TestQuotaForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		for n := range 10_000 {
			q.Allow(types.UID(fmt.Sprint(n)), event(0), false)
			<-time.After(time.Second)
		}
		// One that has posted one Event is full again after five minutes.
		if n := q.Len(); n > 1000 {
			t.Errorf("%d objects are remembered", n)
		}
		q.Forget("9999")
		q.Forget("none")
		before := q.Len()
		q.Allow("9999", event(0), false)
		expect(t, "an object that was forgotten is known again", q.Len(), before+1)
	})
}

// 50 000 objects that live on with one Event each are forgotten when their quotas are whole again, without any other Event.
func TestQuota_ForgetsObjectsThatLiveOn(t *testing.T) {
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

// An object is not forgotten while the recorder still counts its last Event: the next one would cost another write.
func TestQuota_RemembersSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := eventrecorder.Limiter{AggregatesSeries: true}
		for range 2 {
			q.Allow("a", event(1), false)
		}
		<-time.After(20 * time.Minute)
		for range 2 {
			q.Allow("a", event(1), false)
		}
		for range 100 { // these are only counted
			<-time.After(5 * time.Minute)
			q.Sweep()
			expect(t, "while it is counted", q.Len(), 1)
			if _, ok := q.Allow("a", event(1), false); !ok {
				t.Fatal("what is counted is not free")
			}
		}
		<-time.After(20 * time.Minute)
		q.Sweep()
		expect(t, "after the end of the series", q.Len(), 0)
	})
}

func TestQuota_ForgetsAfterSpentQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q eventrecorder.Limiter
		allowed(&q, "noisy", 100, true)
		<-time.After(79 * time.Minute)
		q.Sweep()
		expect(t, "before its quota is whole", q.Len(), 1)
		<-time.After(2 * time.Minute)
		q.Sweep()
		expect(t, "when its quota is whole", q.Len(), 0)
	})
}
