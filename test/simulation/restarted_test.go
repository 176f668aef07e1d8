package simulation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// laggingTransport answers list requests for any version with an earlier response, delays watches, and rejects watch
// requests with initial events.
type laggingTransport struct {
	http.RoundTripper
	released chan struct{} // channel that is closed when the server is up to date
	forbids  bool          // whether the transport also rejects requests for the current version

	mu     sync.Mutex
	former []byte // earlier response to a list request
	gets   int    // number of reads of single widgets
	lists  int    // number of lists of current versions
}

func (l *laggingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	isList := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/widgets")
	switch {
	case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/widgets/"):
		l.mu.Lock()
		l.gets++
		l.mu.Unlock()
	case isList && query.Get("sendInitialEvents") != "" && l.former != nil:
		return answer(r, http.StatusUnprocessableEntity, apierrors.NewInvalid(v1.GroupVersion.WithKind("Widget").GroupKind(), "", nil).ErrStatus)
	case isList && query.Get("watch") != "" && l.former != nil:
		select {
		case <-l.released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case isList && query.Get("resourceVersion") == "0" && l.former != nil:
		return answer(r, http.StatusOK, rawJSON(l.former))
	case isList && query.Get("limit") == "1":
		l.mu.Lock()
		l.lists++
		l.mu.Unlock()
		if l.forbids {
			return answer(r, http.StatusForbidden, apierrors.NewForbidden(v1.GroupVersion.WithResource("widgets").GroupResource(), "", errors.New("no")).ErrStatus)
		}
	}
	return l.RoundTripper.RoundTrip(r)
}

func answer(r *http.Request, code int, value any) (*http.Response, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

// remember stores the current list as the response to later lists.
func (l *laggingTransport) remember(t *testing.T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://simulated/apis/e2e.example.com/v1/widgets", nil)
	must(t, err)
	response, err := l.RoundTripper.RoundTrip(r)
	must(t, err)
	defer response.Body.Close()
	l.former, err = io.ReadAll(response.Body)
	must(t, err)
}

// playLagging runs two processes of an operator, one after the other. The lists of the second process return the state before the first process.
func playLagging(t *testing.T, link *laggingTransport, widgets func(*callLog) *kopf.Resource[widget], between, after func(users client.Client, obj widget), want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		link.RoundTripper, link.released = config.Transport, make(chan struct{})
		calls, obj := &callLog{}, makeWidget(t, users, "one")
		link.remember(t)
		run := func(config *rest.Config) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				runUntil(ctx, t, config, scheme, widgets(calls))
			}()
			return func() { cancel(); <-ended }
		}
		stop := run(config)
		wait(time.Minute)
		if between != nil {
			between(users, obj)
		}
		stop()
		lagging := rest.CopyConfig(config)
		lagging.Transport = link
		stop = run(lagging)
		wait(time.Minute)
		close(link.released)
		wait(time.Minute)
		if after != nil {
			after(users, obj)
		}
		wait(time.Minute)
		stop()
		calls.expect(t, want...)
	})
}

func logged(calls *callLog, name string) kopf.Handler[widget] {
	return func(_ context.Context, req *kopf.Request[widget]) error {
		calls.addf("%s %d", name, req.Object.Spec.Size)
		return nil
	}
}

func basicHandlers(calls *callLog) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).OnCreate("create", logged(calls, "create")).OnUpdate("update", logged(calls, "update")).
		OnDelete("delete", logged(calls, "delete"))
}

// A new process whose cache lacks the writes of its predecessor calls no handler again and handles the next change.
func TestRestart_LaggingCacheRepeatsNoHandler(t *testing.T) {
	for name, forbids := range map[string]bool{"the current version is known": false, "the current version is forbidden": true} {
		t.Run(name, func(t *testing.T) {
			link := &laggingTransport{forbids: forbids}
			widgets := func(calls *callLog) *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnCreate("create", logged(calls, "create")).OnUpdate("update", logged(calls, "update"))
			}
			playLagging(t, link, widgets, nil, func(users client.Client, obj widget) {
				patch(t.Context(), t, users, obj, `{"spec":{"size":2}}`)
			}, "create 1", "update 2")
			if link.lists == 0 || link.gets == 0 {
				t.Errorf("lists = %d, reads = %d, want more than 0 of each", link.lists, link.gets)
			}
		})
	}
}

// If a list contains an object that an earlier process has deleted, the engine does not handle the object again.
func TestRestart_LaggingCacheShowsDeletedObject(t *testing.T) {
	playLagging(t, &laggingTransport{}, basicHandlers, func(users client.Client, obj widget) {
		must(t, users.Delete(t.Context(), obj.DeepCopy()))
		wait(time.Minute)
	}, nil, "create 1", "delete 1")
}

func reconcileHandlers(calls *callLog) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).OnDelete("delete", logged(calls, "delete")).
		OnReconcile("reconcile", func(ctx context.Context, req *kopf.Request[widget]) error {
			if req.Object.DeletionTimestamp != nil {
				return nil
			}
			return logged(calls, "reconcile")(ctx, req)
		})
}

func backgroundHandlers(calls *callLog) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
			calls.addf("daemon %d", req.Object.Spec.Size)
			<-ctx.Done()
			calls.addf("daemon %d ends: %s", req.Object.Spec.Size, context.Cause(ctx))
			return nil
		}).
		Timer("timer", daemons.Timer{Interval: time.Hour}, logged(calls, "timer"), kopf.InitialDelay(time.Second))
}

// Daemons and timers of an object that was deleted before the start do not start, even if the first list still contains the object with the finalizer,
// and even if its name belongs to another object now. Reconcile handlers are not called for such an object.
func TestRestart_LaggingCacheStartsNoWorkForDeletedObjects(t *testing.T) {
	backgroundAgain := []string{"daemon 2", "timer 2", "daemon 2 ends: operator shutting down"} // in each process
	background, reconcile := []string{"daemon 1", "timer 1", "daemon 1 ends: object deleted"}, []string{"reconcile 1", "delete 1"}
	for name, test := range map[string]struct {
		handlers  func(*callLog) *kopf.Resource[widget]
		recreated bool
		want      []string
	}{
		"background":             {backgroundHandlers, false, background},
		"background, re-created": {backgroundHandlers, true, slices.Concat(background, backgroundAgain, backgroundAgain)},
		"reconcile":              {reconcileHandlers, false, reconcile},
	} {
		t.Run(name, func(t *testing.T) {
			link := &laggingTransport{}
			playLagging(t, link, test.handlers, func(users client.Client, obj widget) {
				link.remember(t)
				must(t, users.Delete(t.Context(), obj.DeepCopy()))
				wait(time.Minute)
				if test.recreated {
					again := obj.DeepCopy()
					again.ResourceVersion, again.UID, again.Spec.Size = "", "", 2
					must(t, users.Create(t.Context(), again))
					wait(time.Minute)
				}
			}, nil, test.want...)
		})
	}
}

// The engine continues a cycle of the earlier process from the stored progress, not from the progress in the cache.
func TestRestart_LaggingCacheContinuesACycle(t *testing.T) {
	widgets := func(calls *callLog) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).OnCreate("first", logged(calls, "first")).OnCreate("second", func(_ context.Context, req *kopf.Request[widget]) error {
			calls.addf("second, attempt %d", req.Attempt.Number)
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("not yet"), 90*time.Second)
			}
			return nil
		})
	}
	playLagging(t, &laggingTransport{}, widgets, nil, nil, "first 1", "second, attempt 0", "second, attempt 1")
}

// After a restart, the engine sends one small list request for each kind and reads no handled object. It reads an object before it starts a daemon or
// a timer only if the cache is older than the start of the process.
func TestRestart_ReadsNoHandledObjects(t *testing.T) {
	for name, test := range map[string]struct {
		handlers func(*callLog) *kopf.Resource[widget]
		lags     bool
		reads    int
	}{
		"current":             {basicHandlers, false, 0},
		"lagging":             {basicHandlers, true, 0},
		"current, background": {backgroundHandlers, false, 0},
		"lagging, background": {backgroundHandlers, true, 1},
		"current, reconcile":  {reconcileHandlers, false, 0},
		"lagging, reconcile":  {reconcileHandlers, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			link := &laggingTransport{}
			play(t, test.handlers(&callLog{}), func(t *testing.T, s *scene) {
				wait(time.Minute)
				link.RoundTripper, link.released = s.config.Transport, make(chan struct{})
				if test.lags {
					link.remember(t)
					makeWidget(t, s.users, "other") // so that the list is older than the start of the second process
				}
				lagging := rest.CopyConfig(s.config)
				lagging.Transport = link
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				runUntil(ctx, t, lagging, s.users.Scheme(), test.handlers(&callLog{}))
			})
			if link.lists != 1 || link.gets != test.reads {
				t.Errorf("lists = %d, reads = %d, want 1 and %d", link.lists, link.gets, test.reads)
			}
		})
	}
}

// rawJSON is encoded JSON.
type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
