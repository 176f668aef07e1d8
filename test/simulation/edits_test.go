package simulation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// B-13: edits by timers during a creation cycle of several reconciles are not updates.
func TestTimerEdits_DuringCreationAreNoUpdates(t *testing.T) {
	var updates atomic.Int64
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("c", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("not yet"), 5*time.Second)
			}
			return nil
		}).
		OnUpdate("u", func(_ context.Context, req *kopf.Request[widget]) error {
			updates.Add(1)
			t.Logf("update: %v", req.Diff)
			return nil
		}).
		Timer("t", daemons.Timer{Interval: time.Hour}, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Labels = map[string]string{"mine": "yes"}
			return nil
		}, kopf.InitialDelay(time.Second))
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if n := updates.Load(); n != 0 {
			t.Errorf("number of updates = %d, want 0", n)
		}
	})
}

// B-13, B-31: edits by timers are not updates, even if the object is too large for a baseline.
func TestTimerEdits_OfLargeObjectsAreNoUpdates(t *testing.T) {
	var updates atomic.Int64
	widgets := kopf.For(&v1.Widget{}).
		OnUpdate("u", func(_ context.Context, req *kopf.Request[widget]) error {
			updates.Add(1)
			t.Logf("update: OldKnown = %t, len(Diff) = %d, Old = %v", req.OldKnown(), len(req.Diff), req.Old)
			return nil
		}).
		Timer("t", daemons.Timer{Interval: time.Hour}, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Labels = map[string]string{"mine": "yes"}
			return nil
		}, kopf.InitialDelay(10*time.Second))
	large := &v1.Widget{Spec: v1.WidgetSpec{Size: 1, Color: strings.Repeat("x", 250<<10)}}
	playOn(t, func(*rest.Config) {}, large, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if n := updates.Load(); n != 0 {
			t.Errorf("number of updates = %d, want 0", n)
		}
	})
}

// TIM-06: two timers that edit the essence at the same time do not reset the idle time of a third timer.
func TestIdle_IsNotResetByTwoTimers(t *testing.T) {
	var idle atomic.Int64
	edit := func(label string) kopf.Handler[widget] {
		return func(_ context.Context, req *kopf.Request[widget]) error {
			wait(100 * time.Millisecond) // the delay lets both timers run at the same time, before either edits
			if req.Object.Labels == nil {
				req.Object.Labels = map[string]string{}
			}
			req.Object.Labels[label] = strconv.FormatInt(time.Now().UnixNano(), 10)
			return nil
		}
	}
	widgets := kopf.For(&v1.Widget{}).
		Timer("a", daemons.Timer{Interval: time.Second}, edit("a")).
		Timer("b", daemons.Timer{Interval: time.Second}, edit("b")).
		Timer("idle", daemons.Timer{Idle: 5 * time.Second}, func(context.Context, *kopf.Request[widget]) error {
			idle.Add(1)
			return nil
		})
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if idle.Load() == 0 {
			t.Error("attempts of the idle timer = 0, want at least 1")
		}
	})
}

// B-41: a change by a user restarts a failed timer. The test drops the response to the patch of a timer, so that the engine observes the edit
// before it retries the patch.
func TestUserChanges_RestartTimersAfterALostResponse(t *testing.T) {
	var failing atomic.Int64
	loss := &losing{}
	widgets := kopf.For(&v1.Widget{}).
		OnUpdate("u", func(context.Context, *kopf.Request[widget]) error { return nil }).
		Timer("edits", daemons.Timer{Interval: time.Hour}, func(_ context.Context, req *kopf.Request[widget]) error {
			loss.armed.Store(true)
			req.Object.Labels = map[string]string{"mine": "yes"}
			return nil
		}, kopf.InitialDelay(5*time.Second)).
		Timer("fails", daemons.Timer{Interval: time.Minute}, func(context.Context, *kopf.Request[widget]) error {
			failing.Add(1)
			return kopf.Permanent(errors.New("never"))
		})
	alter := func(config *rest.Config) { loss.RoundTripper = config.Transport; config.Transport = loss }
	playOn(t, alter, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
		wait(30 * time.Second)
		if loss.lost.Load() != 1 || failing.Load() != 1 {
			t.Fatalf("lost responses = %d, failed attempts = %d, want 1 and 1", loss.lost.Load(), failing.Load())
		}
		s.patch(t, `{"spec":{"size":2}}`)
		wait(30 * time.Second)
		if failing.Load() != 2 {
			t.Errorf("B-41: attempts of the failed timer after a change = %d, want 1", failing.Load()-1)
		}
	})
}

// losing is a transport that drops the response to one patch of labels.
type losing struct {
	http.RoundTripper
	armed atomic.Bool
	lost  atomic.Int64
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return l.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil && bytes.Contains(body, []byte(`"mine"`)) && !bytes.Contains(body, []byte("last-handled")) && l.armed.CompareAndSwap(true, false) && l.lost.CompareAndSwap(0, 1) {
		return nil, errors.New("simulated loss of a response")
	}
	return response, err
}
