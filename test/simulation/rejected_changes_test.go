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
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// tooMuch is a size that the strict server rejects.
const tooMuch = 5000

// strict is a server that rejects sizes in the spec that are too large. It accepts every status, because the status has no size.
type strict struct {
	next        http.RoundTripper
	onRejection atomic.Pointer[func()] // function to call at each rejection, before the response
}

func (s *strict) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/widgets/one") {
		return s.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, fmt.Appendf(nil, `"size":%d`, tooMuch)) {
		return s.next.RoundTrip(r)
	}
	if onRejection := s.onRejection.Load(); onRejection != nil {
		(*onRejection)()
	}
	const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"the size is too large"}`
	return &http.Response{
		StatusCode: http.StatusUnprocessableEntity, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(refusal)),
	}, nil
}

// playStrict runs an operator on a strict server. At each rejection, another client adds a condition.
func playStrict(t *testing.T, widgets *kopf.Resource[widget], act func(t *testing.T, s *scene, box *mailbox)) {
	t.Helper()
	server, events := &strict{}, &mailbox{}
	playOn(t, func(config *rest.Config) {
		events = intercept(config)
		server.next, config.Transport = config.Transport, server
	}, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
		onRejection := func() {
			obj := s.now(t)
			meta.SetStatusCondition(&obj.Status.Conditions, metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue, Reason: "R"})
			must(t, s.users.Status().Update(t.Context(), obj))
		}
		server.onRejection.Store(&onRejection)
		act(t, s, events)
	})
}

func expectConditions(t *testing.T, s *scene, want ...string) {
	t.Helper()
	var got []string
	for _, c := range s.now(t).Status.Conditions {
		got = append(got, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("conditions = %q, want %q", got, want)
	}
}

func reasonsOf(box *mailbox) (reasons []string) {
	box.mu.Lock()
	defer box.mu.Unlock()
	for _, one := range box.posted["one"] {
		reasons = append(reasons, one.Reason+" "+one.Action)
	}
	return reasons
}

// The engine reverts the stored part of a rejected change (decision 0005). It keeps the changes of other handlers and of other clients.
func TestRejectedChange_RevertsOnlyItself(t *testing.T) {
	first := func(_ context.Context, req *kopf.Request[widget]) error {
		req.Conditions().True("First", "Done", "")
		req.Conditions().True("Both", "First", "")
		req.Object.Status.Phase = "first"
		return nil
	}
	second := func(_ context.Context, req *kopf.Request[widget]) error {
		req.Conditions().True("Second", "Done", "")
		req.Conditions().False("Both", "Second", "")
		req.Object.Status.Phase = "second"
		req.Object.Status.Log = []string{"second"}
		req.Object.Spec.Size = tooMuch
		return nil
	}
	const patiently = time.Hour
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"handlers of a cause": kopf.For(&v1.Widget{}).OnCreate("first", first).OnCreate("second", second, kopf.Backoff(patiently)),
		"an earlier and a later handler": kopf.For(&v1.Widget{}).OnCreate("first", first).
			OnCreate("second", second, kopf.After("first"), kopf.Backoff(patiently)),
		"reconcile handlers": kopf.For(&v1.Widget{}).OnReconcile("first", first).
			OnReconcile("second", second, kopf.Backoff(patiently)),
		"a timer": kopf.For(&v1.Widget{}).OnCreate("first", first).
			Timer("second", daemons.Timer{Interval: patiently}, second, kopf.InitialDelay(10*time.Second), kopf.Backoff(patiently)),
	} {
		t.Run(name, func(t *testing.T) {
			playStrict(t, widgets, func(t *testing.T, s *scene, _ *mailbox) {
				wait(time.Minute)
				expectConditions(t, s, "Both=True First", "First=True Done", "Theirs=True R")
				if got := s.now(t).Status; got.Phase != "first" || len(got.Log) > 0 {
					t.Errorf("status = %+v, want phase first and an empty log", got)
				}
			})
		})
	}
}

// A handler whose change is rejected fails. Its condition and its Events report each failure.
func TestRejectedChange_FailsItsHandler(t *testing.T) {
	greedy := func(_ context.Context, req *kopf.Request[widget]) error {
		req.Object.Spec.Size = tooMuch
		return nil
	}
	settings := []kopf.HandlerOption{kopf.ReportCondition("Synced"), kopf.Backoff(time.Minute), kopf.Retries(3)}
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"of a cause":      kopf.For(&v1.Widget{}, kopf.WithConditions("Synced")).OnCreate("greedy", greedy, settings...),
		"level-triggered": kopf.For(&v1.Widget{}, kopf.WithConditions("Synced")).OnReconcile("greedy", greedy, settings...),
	} {
		t.Run(name, func(t *testing.T) {
			playStrict(t, widgets, func(t *testing.T, s *scene, box *mailbox) {
				for range 2 {
					wait(30 * time.Second)
					expectConditions(t, s, "Synced=False Retrying", "Theirs=True R")
					wait(30 * time.Second)
				}
				wait(2 * time.Minute)
				expectConditions(t, s, "Synced=False Failed", "Theirs=True R")
				if got := reasonsOf(box); !slices.Equal(got, []string{"HandlerFailed greedy"}) {
					t.Errorf("Events = %q, want HandlerFailed greedy", got)
				}
			})
		})
	}
}

// A handler that fails permanently before its first call reports the failure.
func TestUncalledHandlers_ReportTheirFailure(t *testing.T) {
	attempts := 0
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("slow", func(context.Context, *kopf.Request[widget]) error {
			if attempts++; attempts < 15 {
				return kopf.Temporary(errors.New("not yet"), time.Minute)
			}
			return kopf.Permanent(errors.New("not at all"))
		}).
		OnCreate("late", func(context.Context, *kopf.Request[widget]) error {
			t.Error("handler late was called")
			return nil
		}, kopf.After("slow"), kopf.ReportCondition("Late"))
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Minute)
		expectConditions(t, s, "Late=Unknown Running")
		wait(time.Hour)
		expectConditions(t, s, "Late=False Failed")
	})
}

// B-23: a panic of a backoff function does not lose the outcome of the attempt.
func TestBackoff_PanicIsAFailure(t *testing.T) {
	var calls []string
	pauses := []time.Duration{time.Second}
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("good", func(context.Context, *kopf.Request[widget]) error {
			calls = append(calls, "good")
			return nil
		}).
		OnCreate("bad", func(_ context.Context, req *kopf.Request[widget]) error {
			calls = append(calls, fmt.Sprint("bad ", req.Attempt.Number))
			return errors.New("no luck")
		}, kopf.BackoffFunc(func(a progress.Attempt, _ error) time.Duration { return pauses[a.Number] }))
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(90 * time.Second)
		if want := []string{"good", "bad 0", "bad 1", "bad 2"}; !slices.Equal(calls, want) {
			t.Errorf("calls = %q, want %q", calls, want)
		}
	})
}

// B-31: the engine removes the finalizer from a deleted object even if it cannot write the status.
func TestDeletion_DoesNotWaitForTheStatus(t *testing.T) {
	calls := 0
	widgets := kopf.For(&v1.Widget{}).OnDelete("bye", func(_ context.Context, req *kopf.Request[widget]) error {
		calls++
		req.Object.Status.Phase = "gone"
		return nil
	}, kopf.ReportCondition("Gone"))
	noStatus := func(config *rest.Config) {
		next := config.Transport
		config.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/widgets/one/status") {
				return nil, errors.New("simulated outage")
			}
			return next.RoundTrip(r)
		})
	}
	playOn(t, noStatus, &v1.Widget{}, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		must(t, s.users.Delete(t.Context(), s.obj.DeepCopy()))
		wait(10 * time.Minute)
		if err := s.users.Get(t.Context(), client.ObjectKeyFromObject(s.obj), s.obj); !apierrors.IsNotFound(err) {
			t.Errorf("read of the object returned %v, want not found", err)
		}
		if calls != 1 {
			t.Errorf("handler calls = %d, want 1", calls)
		}
	})
}
