package eventwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deliveries records the successful deliveries of a series, and lets others fail.
type deliveries struct {
	began time.Time

	mu     sync.Mutex
	during func(event *corev1.Event) // called in each delivery; optional
	faults map[types.UID]error
	all    []string // the uid, the count and the time of each successful delivery
}

func (d *deliveries) deliver(_ context.Context, one Delivery) ([]Owner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.during != nil {
		d.during(one.Event)
	}
	if err := d.faults[one.Event.UID]; err != nil {
		return nil, err
	}
	d.all = append(d.all, fmt.Sprintf("%s %d after %s", one.Event.UID, Count(one.Event), time.Since(d.began).Round(time.Second)))
	return nil, nil
}

// setFault sets the error of the deliveries of an Event; nil for none.
func (d *deliveries) setFault(uid types.UID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[uid] = err
}

func (d *deliveries) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.all, want) {
		t.Errorf("deliveries %q, want %q", d.all, want)
	}
}

// testSeries runs a series with an interval of one minute in virtual time.
func testSeries(t *testing.T, test func(t *testing.T, s *series, d *deliveries)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &deliveries{began: time.Now(), faults: map[types.UID]error{}}
		s := newSeries(time.Minute, d.deliver, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx) })
		test(t, s, d)
		cancel()
		running.Wait()
	})
}

// occurrence returns the state of an Event that has occurred now.
func occurrence(uid types.UID, count int32) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{UID: uid}, Count: count, LastTimestamp: metav1.Now()}
}

var errUnobserved = errors.New("the object is not observed")

func TestSeries_DeliversEachOccurrenceAtMostOncePerInterval(t *testing.T) {
	testSeries(t, func(t *testing.T, s *series, d *deliveries) {
		for i := range 15 {
			s.add(occurrence("a", int32(i+1)), false)
			<-time.After(7 * time.Second)
		}
		<-time.After(time.Hour)
		d.expect(t, "a 1 after 0s", "a 9 after 1m0s", "a 15 after 2m0s")
	})
}

// A new list of the Events contains states that the series has received before.
func TestSeries_IgnoresAReceivedState(t *testing.T) {
	for name, test := range map[string]struct {
		occurrences int32 // before the fault
		want        []string
	}{
		"the first occurrence":  {0, []string{"a 1 after 6s", "a 2 after 1m10s"}},
		"a repeated occurrence": {1, []string{"a 1 after 0s", "a 2 after 2m6s", "a 3 after 3m10s"}},
	} {
		t.Run(name, func(t *testing.T) {
			testSeries(t, func(t *testing.T, s *series, d *deliveries) {
				if test.occurrences > 0 {
					s.add(occurrence("a", test.occurrences), false)
					<-time.After(2 * time.Minute)
				}
				d.setFault("a", errUnobserved)
				state := occurrence("a", test.occurrences+1)
				s.add(state, false)
				<-time.After(4 * time.Second)
				s.add(state.DeepCopy(), false)
				<-time.After(time.Second)
				d.setFault("a", nil)
				<-time.After(time.Minute + 5*time.Second)
				s.add(occurrence("a", test.occurrences+2), false)
				<-time.After(time.Hour)
				d.expect(t, test.want...)
			})
		})
	}
}

func TestSeries_IgnoresAReceivedStateDuringItsDelivery(t *testing.T) {
	testSeries(t, func(t *testing.T, s *series, d *deliveries) {
		d.during = func(event *corev1.Event) { s.add(event.DeepCopy(), false) }
		s.add(occurrence("a", 1), false)
		<-time.After(70 * time.Second)
		s.add(occurrence("a", 2), false)
		<-time.After(time.Hour)
		d.expect(t, "a 1 after 0s", "a 2 after 1m10s")
	})
}

// After a long fault of the API server, Events that it affects do not delay others until the fault has ended.
func TestSeries_HoldsLaterEventsAgainOnlyAfterTheFault(t *testing.T) {
	fault := &OrderedError{Err: errors.New("the API server has a fault")}
	for name, test := range map[string]struct {
		recover func(s *series, d *deliveries)
		want    []string
	}{
		"an object was observed late": {func(s *series, d *deliveries) {
			d.setFault("late", errUnobserved)
			s.add(occurrence("late", 1), false)
			<-time.After(time.Second)
			d.setFault("late", nil)
		}, []string{"late 1 after 1m2s", "last 1 after 1m10s"}},
		"the fault has ended": {func(s *series, d *deliveries) {
			s.add(occurrence("second", 1), false)
			<-time.After(time.Second)
			d.setFault("second", nil)
		}, []string{"second 1 after 1m2s", "last 1 after 1m33s"}},
		"the fault has ended for an object that is observed late": {func(s *series, d *deliveries) {
			s.add(occurrence("second", 1), false)
			<-time.After(time.Second)
			d.setFault("second", errUnobserved)
			<-time.After(time.Second)
			d.setFault("second", nil)
		}, []string{"second 1 after 1m3s", "last 1 after 1m33s"}},
	} {
		t.Run(name, func(t *testing.T) {
			testSeries(t, func(t *testing.T, s *series, d *deliveries) {
				for _, uid := range []types.UID{"first", "second", "third"} {
					d.setFault(uid, fault)
				}
				s.add(occurrence("first", 1), false)
				<-time.After(time.Minute)
				test.recover(s, d)
				<-time.After(time.Until(d.began.Add(70 * time.Second)))
				s.add(occurrence("third", 1), false)
				<-time.After(time.Millisecond)
				s.add(occurrence("last", 1), false)
				<-time.After(time.Hour)
				d.expect(t, test.want...)
			})
		})
	}
}
