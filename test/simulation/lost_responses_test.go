package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// lossy is a transport. It fails the first patch that contains a text, before or after the server handles the patch. It then calls a function.
type lossy struct {
	next   http.RoundTripper
	text   string
	skip   int // number of matching patches to pass first
	commit bool
	then   func()
	mu     sync.Mutex
	lost   bool
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return l.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !l.matches(string(body)) {
		return l.next.RoundTrip(r)
	}
	if l.commit {
		answer, err := l.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_ = answer.Body.Close()
		if answer.StatusCode >= http.StatusBadRequest {
			return nil, fmt.Errorf("the write was not committed: %s", answer.Status)
		}
	}
	l.then()
	return nil, errors.New("simulated connection failure")
}

func (l *lossy) matches(body string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(body, l.text) {
		return false
	}
	if l.skip--; l.skip >= 0 {
		return false
	}
	taken := !l.lost
	l.lost = true
	return taken
}

// playLossy runs an operator whose first patch with the text has no response. A user patches the object immediately
// afterwards.
func playLossy(t *testing.T, link *lossy, widgets *kopf.Resource[widget], edit func(t *testing.T, s *scene), check func(t *testing.T, s *scene)) {
	t.Helper()
	over := func(config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { link.next = &strict{next: next}; return link })
	}
	ready := make(chan *scene, 1)
	link.then = func() { s := <-ready; edit(t, s); ready <- s }
	obj := &v1.Widget{Spec: v1.WidgetSpec{Size: 1, Color: "before"}}
	playOn(t, over, obj, widgets, func(t *testing.T, s *scene) {
		ready <- s
		wait(time.Minute)
		link.mu.Lock()
		lost := link.lost
		link.mu.Unlock()
		if !lost {
			t.Fatal("no response was lost")
		}
		check(t, s)
	})
}

// updateLog records the colors of updates.
type updateLog struct {
	mu   sync.Mutex
	seen []string
}

func (l *updateLog) handler(_ context.Context, req *kopf.Request[widget]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, fmt.Sprintf("%s to %s", req.Old.Spec.Color, req.Object.Spec.Color))
	return nil
}

func (l *updateLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// If a user changes a field while the outcome of a write is unknown, the field keeps the user's value. The user's
// change causes an update with the correct old value.
func TestLostResponse_KeepsConcurrentChangesOfFields(t *testing.T) {
	paint := func(_ context.Context, req *kopf.Request[widget]) error {
		if req.Object.Spec.Color == "before" {
			req.Object.Spec.Color = "operator"
		}
		return nil
	}
	paintAndReport := func(ctx context.Context, req *kopf.Request[widget]) error {
		req.Object.Status.Phase = "Painted"
		return paint(ctx, req)
	}
	retried := func(ctx context.Context, req *kopf.Request[widget]) error {
		if req.Attempt.Number == 0 {
			return errors.Join(paint(ctx, req), kopf.Temporary(errors.New("not yet"), 5*time.Second))
		}
		return nil
	}
	background := func(r *kopf.Resource[widget]) *kopf.Resource[widget] {
		return r.OnCreate("made", func(context.Context, *kopf.Request[widget]) error { return nil })
	}
	reject := func(_ context.Context, req *kopf.Request[widget]) error {
		req.Object.Spec.Size = tooMuch
		return kopf.Permanent(errors.New("simulated failure"))
	}
	const either = "before to user or operator to user" // the worker may observe the change of the background handler before the change of the user
	const late = 5 * time.Second
	for name, test := range map[string]struct {
		widgets func() *kopf.Resource[widget]
		commit  bool
		updates string
		skip    int
	}{
		"committed, by a cause handler": {
			func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("paint", paint) }, true, "operator to user", 0,
		},
		"not committed, by a cause handler": {
			func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("paint", paint) }, false, "before to user", 0,
		},
		"committed, by a cause handler with a status": {
			func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("paint", paintAndReport) }, true, "operator to user", 0,
		},
		"not committed, by a cause handler with a status": {
			func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("paint", paintAndReport) }, false, "before to user", 0,
		},
		"committed, in a cycle of several attempts": {
			func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("paint", retried) }, true, "operator to user", 0,
		},
		"not committed, in a cycle of several attempts": {
			func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("paint", retried) }, false, "before to user", 0,
		},
		"committed, by a timer": {
			func() *kopf.Resource[widget] {
				return background(kopf.For(&v1.Widget{}).Timer("paint", daemons.Timer{Interval: time.Hour}, paint, kopf.InitialDelay(late)))
			}, true, either, 0,
		},
		"not committed, by a timer": {
			func() *kopf.Resource[widget] {
				return background(kopf.For(&v1.Widget{}).Timer("paint", daemons.Timer{Interval: time.Hour}, paintAndReport, kopf.InitialDelay(late)))
			}, false, "before to user", 0,
		},
		"committed, by a daemon": {
			func() *kopf.Resource[widget] {
				return background(kopf.For(&v1.Widget{}).Daemon("paint", daemons.Daemon{}, paintAndReport, kopf.InitialDelay(late)))
			}, true, either, 0,
		},
		"committed, beside a rejected change": {
			func() *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnCreate("reject", reject).OnCreate("paint", paint)
			}, true, "before to user", 1,
		},
		"not committed, beside a rejected change": {
			func() *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnCreate("reject", reject).OnCreate("paint", paint)
			}, false, "before to user", 1,
		},
		"not committed, by a reconcile handler": {
			func() *kopf.Resource[widget] { return background(kopf.For(&v1.Widget{})).OnReconcile("paint", paint) }, false, "before to user", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &updateLog{}
			link := &lossy{text: `"color":"operator"`, commit: test.commit, skip: test.skip}
			playLossy(t, link, test.widgets().OnUpdate("log", log.handler), func(t *testing.T, s *scene) {
				t.Helper()
				s.patch(t, `{"spec":{"color":"user"}}`)
			}, func(t *testing.T, s *scene) {
				got := s.now(t)
				if got.Spec.Color != "user" {
					t.Errorf("color = %q, want user", got.Spec.Color)
				}
				if updates := log.all(); len(updates) != 1 || !slices.Contains(strings.Split(test.updates, " or "), updates[0]) {
					t.Errorf("updates = %q, want %q", updates, test.updates)
				}
			})
		})
	}
}

// After a lost response, the engine writes the fields that the user has not changed.
func TestLostResponse_WritesUnchangedFields(t *testing.T) {
	both := func(_ context.Context, req *kopf.Request[widget]) error {
		if req.Object.Spec.Size == 1 {
			req.Object.Spec.Size, req.Object.Spec.Color = 2, "operator"
		}
		return nil
	}
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"by a cause handler": kopf.For(&v1.Widget{}).OnCreate("paint", both),
		"by a timer":         kopf.For(&v1.Widget{}).Timer("paint", daemons.Timer{Interval: time.Hour}, both),
	} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, committed: %t", name, commit), func(t *testing.T) {
				playLossy(t, &lossy{text: `"color":"operator"`, commit: commit}, widgets, func(t *testing.T, s *scene) {
					t.Helper()
					s.patch(t, `{"spec":{"color":"user"},"metadata":{"labels":{"by":"user"}}}`)
				}, func(t *testing.T, s *scene) {
					got := s.now(t)
					if got.Spec.Color != "user" || got.Spec.Size != 2 || got.Labels["by"] != "user" {
						t.Errorf("spec = %+v, labels = %v, want color user, size 2 and label by=user", got.Spec, got.Labels)
					}
				})
			})
		}
	}
}

// The status also keeps the user's value after a lost response.
func TestLostResponse_KeepsConcurrentChangesOfTheStatus(t *testing.T) {
	report := func(_ context.Context, req *kopf.Request[widget]) error {
		if req.Object.Status.Phase == "" {
			req.Object.Status.Phase, req.Object.Status.Log = "Operator", []string{"operator"}
		}
		return nil
	}
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"of a cause handler":     kopf.For(&v1.Widget{}).OnCreate("report", report),
		"of a reconcile handler": kopf.For(&v1.Widget{}).OnReconcile("report", report),
		"of a timer":             kopf.For(&v1.Widget{}).Timer("report", daemons.Timer{Interval: time.Hour}, report),
	} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, committed: %t", name, commit), func(t *testing.T) {
				playLossy(t, &lossy{text: `"phase":"Operator"`, commit: commit}, widgets, func(t *testing.T, s *scene) {
					t.Helper()
					s.patchStatus(t, `{"status":{"phase":"User"}}`)
				}, func(t *testing.T, s *scene) {
					if got := s.now(t).Status; got.Phase != "User" || !slices.Equal(got.Log, []string{"operator"}) {
						t.Errorf("status = %+v, want phase User and log operator", got)
					}
				})
			})
		}
	}
}

// After a lost response, the event of the write does not call a reconcile handler again. The user's change calls it.
func TestLostResponse_CallsReconcileHandlersOnlyForChangesOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		text, edit string
		calls      int64
	}{
		"of the object":                      {`"color":"operator"`, `{}`, 1},
		"of the object, before another edit": {`"color":"operator"`, `{"spec":{"size":7}}`, 2},
		"of the status":                      {`"phase":"Operator"`, `{}`, 1},
		"of the status, before another edit": {`"phase":"Operator"`, `{"spec":{"size":7}}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			widgets := kopf.For(&v1.Widget{}).OnReconcile("paint", func(_ context.Context, req *kopf.Request[widget]) error {
				calls.Add(1)
				req.Object.Spec.Color, req.Object.Status.Phase = "operator", "Operator"
				return nil
			})
			playLossy(t, &lossy{text: test.text, commit: true}, widgets, func(t *testing.T, s *scene) {
				t.Helper()
				s.patch(t, test.edit)
			}, func(t *testing.T, _ *scene) {
				if n := calls.Load(); n != test.calls {
					t.Errorf("handler calls = %d, want %d", n, test.calls)
				}
			})
		})
	}
}
