package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// callLog records handler calls with the UID of the object.
type callLog struct {
	mu    sync.Mutex
	lines []string
	times []time.Time
}

func (l *callLog) addf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.times = append(l.lines, fmt.Sprintf(format, args...)), append(l.times, time.Now())
}

func (l *callLog) expect(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("calls = %q, want %q", l.lines, want)
	}
}

// handler returns a handler whose first attempts fail with a delay of one minute.
func (l *callLog) handler(name string, failures int) kopf.Handler[widget] {
	return func(_ context.Context, req *kopf.Request[widget]) error {
		l.addf("%s %s size %d attempt %d", name, req.Object.UID, req.Object.Spec.Size, req.Attempt.Number)
		if req.Attempt.Number < failures {
			return kopf.Temporary(errors.New("not yet"), time.Minute)
		}
		return nil
	}
}

// countingTransport counts writes and can reject reads of single objects.
type countingTransport struct {
	http.RoundTripper
	mu      sync.Mutex
	writes  int
	refuses int
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	if r.Method != http.MethodGet {
		c.writes++
	}
	refused := c.refuses > 0 && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/widgets/")
	if refused {
		c.refuses--
	}
	c.mu.Unlock()
	if refused {
		return nil, errors.New("simulated connection failure")
	}
	return c.RoundTripper.RoundTrip(r)
}

func (c *countingTransport) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

func vanish(t *testing.T, server http.RoundTripper, obj widget) {
	t.Helper()
	must(t, server.(*apiserver.Server).RemoveDespiteFinalizers(v1.GroupVersion.WithKind("Widget"), client.ObjectKeyFromObject(obj)))
}

// playVanished runs an operator on a widget. It passes the operator's transport to act.
func playVanished(t *testing.T, widgets *kopf.Resource[widget], act func(t *testing.T, s *scene, link *countingTransport)) {
	t.Helper()
	var link *countingTransport
	wrap := func(config *rest.Config) {
		link = &countingTransport{RoundTripper: config.Transport}
		config.Transport = link
	}
	playOn(t, wrap, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
		wait(5 * time.Second)
		act(t, s, link)
	})
}

// The server removes an object although it has a finalizer. The engine calls the delete handlers with the last known
// state and their retry policy, and writes nothing.
func TestVanishedObject_DeleteHandlersRunWithTheirPolicy(t *testing.T) {
	calls := &callLog{}
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("create", calls.handler("create", 0)).
		OnDelete("first", calls.handler("first", 2)).
		OnDelete("second", calls.handler("second", 0), kopf.After("first")).
		OnDelete("parent", func(_ context.Context, req *kopf.Request[widget]) error {
			calls.addf("parent")
			req.Sub("sub", calls.handler("sub", 1))
			return nil
		}).
		OnDelete("fails", func(context.Context, *kopf.Request[widget]) error {
			calls.addf("fails")
			return errors.New("never")
		}, kopf.Retries(2), kopf.Backoff(10*time.Minute)).
		OnDelete("optional", calls.handler("optional", 0), kopf.Optional())
	playVanished(t, widgets, func(t *testing.T, s *scene, link *countingTransport) {
		uid := s.obj.UID
		before := link.count()
		vanish(t, link.RoundTripper, s.obj)
		wait(time.Hour)
		line := func(name string, attempt int) string {
			return fmt.Sprintf("%s %s size 1 attempt %d", name, uid, attempt)
		}
		calls.expect(t, line("create", 0),
			line("first", 0), "parent", line("sub", 0), "fails", line("optional", 0),
			line("first", 1), "parent", line("sub", 1),
			line("first", 2), line("second", 0),
			"fails")
		if n := link.count() - before; n != 0 {
			t.Errorf("writes after the deletion of the object = %d, want 0", n)
		}
	})
}

// The engine handles a new object with the same name separately.
func TestVanishedObject_RecreatedObjectIsSeparate(t *testing.T) {
	calls := &callLog{}
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("create", calls.handler("create", 0)).
		OnUpdate("update", calls.handler("update", 0)).
		OnDelete("delete", calls.handler("delete", 2))
	playVanished(t, widgets, func(t *testing.T, s *scene, link *countingTransport) {
		old := s.obj.UID
		vanish(t, link.RoundTripper, s.obj)
		wait(10 * time.Second)
		again := &v1.Widget{Spec: v1.WidgetSpec{Size: 7}}
		again.Namespace, again.Name = s.obj.Namespace, s.obj.Name
		must(t, s.users.Create(t.Context(), again))
		wait(10 * time.Second)
		patch(t.Context(), t, s.users, again, `{"spec":{"size":8}}`)
		wait(time.Hour)
		line := func(name, uid string, size, attempt int) string {
			return fmt.Sprintf("%s %s size %d attempt %d", name, uid, size, attempt)
		}
		one, two := string(old), string(again.UID)
		calls.expect(t, line("create", one, 1, 0), line("delete", one, 1, 0),
			line("create", two, 7, 0), line("update", two, 8, 0),
			line("delete", one, 1, 1), line("delete", one, 1, 2))
		must(t, s.users.Delete(t.Context(), again))
		wait(time.Hour)
		if got := len(calls.lines); got != 9 {
			t.Errorf("calls after the deletion of the second object = %d, want 9: %q", got, calls.lines)
		}
	})
}

// The engine calls the delete handlers after the API server has confirmed that the object does not exist.
func TestVanishedObject_WaitsForTheLiveRead(t *testing.T) {
	calls := &callLog{}
	widgets := kopf.For(&v1.Widget{}).OnDelete("delete", calls.handler("delete", 0))
	playVanished(t, widgets, func(t *testing.T, s *scene, link *countingTransport) {
		link.mu.Lock()
		link.refuses = 3
		link.mu.Unlock()
		vanish(t, link.RoundTripper, s.obj)
		wait(time.Second)
		calls.expect(t)
		wait(time.Hour)
		calls.expect(t, fmt.Sprintf("delete %s size 1 attempt 0", s.obj.UID))
	})
}

// If another client removes the finalizer of an object in deletion, the engine does not finish the delete handlers.
func TestVanishedObject_FinalizerRemovedByAnotherClient(t *testing.T) {
	calls := &callLog{}
	widgets := kopf.For(&v1.Widget{}).
		OnDelete("delete", calls.handler("delete", 100)).
		OnDelete("optional", calls.handler("optional", 0), kopf.Optional())
	playVanished(t, widgets, func(t *testing.T, s *scene, _ *countingTransport) {
		must(t, s.users.Delete(t.Context(), s.obj.DeepCopy()))
		wait(10 * time.Second)
		s.patch(t, `{"metadata":{"finalizers":null}}`)
		wait(time.Hour)
		calls.expect(t, fmt.Sprintf("delete %s size 1 attempt 0", s.obj.UID), fmt.Sprintf("optional %s size 1 attempt 0", s.obj.UID))
	})
}

// If an object vanishes during a pause, the peer that causes the pause calls the handlers. If it vanished before, the
// paused operator finishes them after the pause.
func TestVanishedObject_Pauses(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(t *testing.T, s *operatorPair, vanish func())
		want int
	}{
		"during the pause": {func(_ *testing.T, s *operatorPair, vanish func()) {
			s.setPeerRecord(pausingRecord)
			vanish()
			wait(5 * time.Second)
			s.setPeerRecord("null")
		}, 0},
		"before the pause": {func(t *testing.T, s *operatorPair, vanish func()) {
			vanish()
			wait(5 * time.Second)
			s.setPeerRecord(pausingRecord)
			wait(time.Hour)
			if got := s.all(); len(got) != 1 {
				t.Errorf("calls during the pause = %q, want 1", got)
			}
			s.setPeerRecord("null")
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			deletes := func(s *operatorPair) *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnDelete("delete", func(_ context.Context, req *kopf.Request[widget]) error {
					s.called("delete", req.Attempt.Number)
					if req.Attempt.Number < 2 {
						return kopf.Temporary(errors.New("not yet"), time.Minute)
					}
					return nil
				})
			}
			playTwoOperators(t, deletes, func(s *operatorPair) {
				test.act(t, s, func() { vanish(t, s.server, s.obj) })
				wait(time.Hour)
				if got := s.all(); len(got) != test.want {
					t.Errorf("calls = %q, want %d", got, test.want)
				}
			})
		})
	}
}
