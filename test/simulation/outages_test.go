package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// outage is a transport that fails all patches of the object "one" during an outage and records their times.
type outage struct {
	next  http.RoundTripper
	lasts atomic.Bool
	mu    sync.Mutex
	tries []time.Time
}

func (o *outage) over(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { o.next = next; return o })
}

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/one") {
		return o.next.RoundTrip(r)
	}
	o.mu.Lock()
	o.tries = append(o.tries, time.Now())
	o.mu.Unlock()
	if o.lasts.Load() {
		return nil, errors.New("simulated outage")
	}
	return o.next.RoundTrip(r)
}

func (o *outage) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { o.tries = nil }()
	return len(o.tries)
}

// gaps returns the intervals between the patches since the last call.
func (o *outage) gaps() (all []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := 1; i < len(o.tries); i++ {
		all = append(all, o.tries[i].Sub(o.tries[i-1]).Round(time.Millisecond))
	}
	o.tries = nil
	return all
}

// The engine retries a failed write with delays that double up to two minutes. The retries need no new event and block no other object. After a
// success, the next outage starts with a short delay (B-05; THR-01, THR-02, THR-03, THR-05, THR-06, PIPE-04, SE-16).
func TestFailedWrites_AreRetriedWithBackoff(t *testing.T) {
	var calls, others atomic.Int64
	var line outage
	widgets := kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
		OnUpdate("updated", func(context.Context, *kopf.Request[widget]) error {
			calls.Add(1)
			return nil
		}).
		OnCreate("created", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Object.Name != "one" {
				others.Add(1)
			}
			return nil
		})
	playOn(t, line.over, &v1.Widget{}, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		for size, change := range []string{`{"spec":{"size":1}}`, `{"spec":{"size":2}}`} {
			line.count()
			line.lasts.Store(true)
			s.patch(t, change)
			wait(10 * time.Minute)
			makeWidget(t, s.users, fmt.Sprint("other", size)) // the only worker must be free for this object
			wait(time.Second)
			if n := others.Load(); n != int64(size+1) {
				t.Errorf("THR-03: other handled objects = %d, want %d", n, size+1)
			}
			wait(10 * time.Minute)
			gaps := line.gaps()
			if len(gaps) < 15 {
				t.Fatalf("attempts in twenty minutes = %d, want at least 15", len(gaps))
			}
			if gaps[0] > 20*time.Millisecond {
				t.Errorf("THR-06: first pause of outage %d = %s, want at most 20ms", size+1, gaps[0])
			}
			for i, gap := range gaps {
				if want := min(gaps[0]<<i, 2*time.Minute); gap != want {
					t.Errorf("THR-02: pause %d = %s, want %s", i+1, gap, want)
				}
			}
			line.lasts.Store(false)
			wait(2 * time.Minute)
			if n := calls.Load(); n != int64(size+1) {
				t.Errorf("handler calls = %d, want %d", n, size+1)
			}
			if n := line.count(); n != 1 {
				t.Errorf("THR-05: writes after the outage = %d, want 1", n)
			}
		}
	})
}

// A delay of one hour causes no writes. An empty patch causes no event and does not change the delay (DLY-05, DLY-07,
// SE-09, SE-50).
func TestLongDelays_CauseNoWrites(t *testing.T) {
	var line outage
	var calls []time.Time
	widgets := kopf.For(&v1.Widget{}).OnCreate("created", func(_ context.Context, req *kopf.Request[widget]) error {
		calls = append(calls, time.Now())
		if req.Attempt.Number < 2 {
			return kopf.Temporary(errors.New("not yet"), time.Hour)
		}
		return nil
	})
	playOn(t, line.over, &v1.Widget{}, widgets, func(t *testing.T, s *scene) {
		wait(30 * time.Minute)
		if n := line.count(); n != 1 {
			t.Errorf("SE-50: writes for one record = %d, want 1", n)
		}
		version := s.now(t).ResourceVersion
		s.patch(t, `{}`) // SE-09: an empty patch must not change the object
		if now := s.now(t).ResourceVersion; now != version {
			t.Fatalf("resource version after an empty patch = %s, want %s", now, version)
		}
		wait(3 * time.Hour)
		if len(calls) != 3 || calls[1].Sub(calls[0]).Round(time.Second) != time.Hour || calls[2].Sub(calls[1]).Round(time.Second) != time.Hour {
			t.Errorf("times of calls = %v, want 3, one hour apart", calls)
		}
		if n := line.count(); n != 2 {
			t.Errorf("SE-50: writes for a record and a baseline = %d, want 2", n)
		}
	})
}
