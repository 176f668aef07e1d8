package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// unsteadyTransport can answer reads of single widgets itself, and can answer one list without any items.
type unsteadyTransport struct {
	http.RoundTripper
	mu        sync.Mutex
	read      func(*http.Request) (*http.Response, error) // answers requests for a single widget; nil passes them on
	emptyList bool
	reads     int
}

func (u *unsteadyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	read, empty, query := u.read, u.emptyList, r.URL.Query()
	isSingle := strings.Contains(r.URL.Path, "/widgets/")
	if isSingle && r.Method == http.MethodGet {
		u.reads++
	}
	u.mu.Unlock()
	switch {
	case isSingle && read != nil:
		return read(r)
	case !empty || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/widgets") || query.Get("limit") == "1":
		return u.RoundTripper.RoundTrip(r)
	case query.Get("sendInitialEvents") != "":
		return answer(r, http.StatusUnprocessableEntity, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid})
	case query.Get("watch") != "":
		return answer(r, http.StatusGone, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
	}
	response, err := u.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var list map[string]any
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, err
	}
	list["items"] = []any{}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.emptyList = false
	return answer(r, http.StatusOK, list)
}

// answerReads answers requests for a single widget; nil passes them on.
func (u *unsteadyTransport) answerReads(read func(*http.Request) (*http.Response, error)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.read = read
}

// loseList makes the next list have no items. Watches end within ten minutes, and client-go then lists the objects again.
func (u *unsteadyTransport) loseList() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.emptyList = true
}

func (u *unsteadyTransport) countReads() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reads
}

// failures returns a function that fails some requests and passes on the others.
func (u *unsteadyTransport) failures(n int) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		u.mu.Lock()
		failed := n > 0
		n--
		u.mu.Unlock()
		if failed {
			return nil, errors.New("simulated connection failure")
		}
		return u.RoundTripper.RoundTrip(r)
	}
}

func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// notServed answers like an API server that does not serve the version of the kind.
func notServed(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Request: r, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: io.NopCloser(strings.NewReader("404 page not found")),
	}, nil
}

// departure is an operator that handles the widgets with a label, and one widget with this label.
type departure struct {
	*testing.T
	*scene
	link  *unsteadyTransport
	calls *callLog
}

func (d *departure) setTeam(value string) {
	d.Helper()
	d.patch(d.T, `{"metadata":{"labels":{"team":`+value+`}}}`)
}

func (d *departure) vanish() {
	d.Helper()
	vanish(d.T, d.link.RoundTripper, d.obj)
}

func (d *departure) recreate() {
	d.Helper()
	again := d.obj.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	must(d.T, d.users.Create(d.Context(), again))
}

func playDeparture(t *testing.T, widgets func(*callLog) *kopf.Resource[widget], act func(*departure), more ...kopf.Option) {
	t.Helper()
	link, calls := &unsteadyTransport{}, &callLog{}
	wrap := func(config *rest.Config) { link.RoundTripper, config.Transport = config.Transport, link }
	obj := &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}
	obj.Labels = map[string]string{"team": "a"}
	playOn(t, wrap, obj, widgets(calls), func(t *testing.T, s *scene) {
		wait(5 * time.Second)
		act(&departure{t, s, link, calls})
	}, append(more, kopf.WithWatchSelector("team=a"))...)
}

func loggedDaemon(calls *callLog) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[widget]) error {
		calls.addf("starts")
		<-ctx.Done()
		calls.addf("%s", context.Cause(ctx))
		return nil
	})
}

// An object that leaves the cache may still exist. A daemon may drop the data of a deleted object, so the API server must confirm the deletion.
func TestDepartedObject_DaemonReceivesTheConfirmedCause(t *testing.T) {
	const deleted, outOfScope = "object deleted", "object out of scope"
	for name, test := range map[string]struct {
		act    func(*departure)
		within time.Duration
		want   []string
	}{
		"loses its label":                      {func(d *departure) { d.setTeam("null") }, time.Second, []string{outOfScope}},
		"loses its label, and gets it again":   {func(d *departure) { d.setTeam("null"); wait(time.Second); d.setTeam(`"a"`) }, time.Minute, []string{outOfScope, "starts"}},
		"vanishes":                             {(*departure).vanish, time.Second, []string{deleted}},
		"is created again":                     {func(d *departure) { d.vanish(); wait(time.Second); d.recreate() }, time.Minute, []string{deleted, "starts"}},
		"vanishes, and some reads fail":        {func(d *departure) { d.link.answerReads(d.link.failures(3)); d.vanish() }, 10 * time.Second, []string{deleted}},       //nolint:bodyclose // it answers with errors, without a body
		"vanishes, and all reads fail":         {func(d *departure) { d.link.answerReads(d.link.failures(1000)); d.vanish() }, 31 * time.Second, []string{outOfScope}}, //nolint:bodyclose // it answers with errors, without a body
		"vanishes, and all reads hang":         {func(d *departure) { d.link.answerReads(hang); d.vanish() }, 31 * time.Second, []string{outOfScope}},
		"vanishes, and its kind is not served": {func(d *departure) { d.link.answerReads(notServed); d.vanish() }, 31 * time.Second, []string{outOfScope}},
		"is missing in a list":                 {func(d *departure) { d.link.loseList() }, 12 * time.Minute, []string{outOfScope}},
		"is missing in a list, and is changed": {
			func(d *departure) { d.link.loseList(); wait(12 * time.Minute); d.patch(d.T, `{"spec":{"size":2}}`) }, time.Minute, []string{outOfScope, "starts"},
		},
		"loses its label while all reads fail, and gets it again": {
			func(d *departure) {
				d.link.answerReads(d.link.failures(1000)) //nolint:bodyclose // it answers with errors, without a body
				d.setTeam("null")
				wait(time.Second)
				d.setTeam(`"a"`)
				wait(2 * time.Second)
				d.link.answerReads(nil)
			}, time.Hour, nil, // the daemon continues
		},
		"is deleted": {func(d *departure) { must(d.T, d.users.Delete(d.Context(), d.obj.DeepCopy())) }, time.Second, []string{deleted}},
	} {
		t.Run(name, func(t *testing.T) {
			playDeparture(t, loggedDaemon, func(d *departure) {
				test.act(d)
				wait(test.within)
				d.calls.expect(t, slices.Concat([]string{"starts"}, test.want)...)
				d.link.answerReads(nil)
			})
		})
	}
}

// CancelOnDelete cancels a handler only if the object is deleted. The handler of an object that is out of scope finishes, and its success is stored.
func TestDepartedObject_CancelOnDelete(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(*departure)
		want []string
	}{
		"loses its label":              {func(d *departure) { d.setTeam("null") }, []string{"starts", "succeeds"}},
		"vanishes":                     {(*departure).vanish, []string{"starts", "object deleted"}},
		"vanishes, and all reads fail": {func(d *departure) { d.link.answerReads(d.link.failures(1000)); d.vanish() }, []string{"starts", "succeeds"}}, //nolint:bodyclose // it answers with errors, without a body
		"is missing in a list":         {func(d *departure) { d.link.loseList() }, []string{"starts", "succeeds"}},
	} {
		t.Run(name, func(t *testing.T) {
			var d *departure
			slow := func(calls *callLog) *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnCreate("slow", func(ctx context.Context, _ *kopf.Request[widget]) error {
					calls.addf("starts")
					select {
					case <-time.After(time.Hour):
						calls.addf("succeeds")
						return nil
					case <-ctx.Done():
						calls.addf("%s", context.Cause(ctx))
						return context.Cause(ctx)
					}
				}, kopf.CancelOnDelete())
			}
			playDeparture(t, slow, func(one *departure) {
				d = one
				test.act(d)
				wait(2 * time.Hour)
				d.calls.expect(t, test.want...)
				d.link.answerReads(nil)
				if name == "loses its label" {
					if baseline := d.now(t).Annotations["kopf.zalando.org/last-handled-configuration"]; baseline == "" {
						t.Error("the success of the handler is not stored")
					}
				}
			})
		})
	}
}

// A handler with CancelOnDelete is also cancelled if the object is deleted just before its call.
func TestDepartedObject_CancelOnDeleteAfterTheDeparture(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(*departure)
		want string
	}{
		"loses its label": {func(d *departure) { d.setTeam("null") }, "succeeds"},
		"vanishes":        {(*departure).vanish, "object deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			var d *departure
			hook := kopf.WithAttemptHook(func(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
				if a.Reason == kopf.ReasonUpdate {
					test.act(d)
					wait(time.Second) // the cache observes it
				}
				return ctx, nil
			})
			slow := func(calls *callLog) *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnUpdate("slow", func(ctx context.Context, _ *kopf.Request[widget]) error {
					select {
					case <-time.After(time.Minute):
						calls.addf("succeeds")
						return nil
					case <-ctx.Done():
						calls.addf("%s", context.Cause(ctx))
						return context.Cause(ctx)
					}
				}, kopf.CancelOnDelete())
			}
			playDeparture(t, slow, func(one *departure) {
				d = one
				d.patch(t, `{"spec":{"size":2}}`)
				wait(time.Hour)
				d.calls.expect(t, test.want)
			}, hook)
		})
	}
}

// An event handler receives a deletion only if the object is deleted.
func TestDepartedObject_EventHandlers(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(*departure)
		want []string
	}{
		"loses its label, and gets it again": {func(d *departure) { d.setTeam("null"); wait(time.Minute); d.setTeam(`"a"`) }, []string{"", "ADDED"}},
		"vanishes":                           {(*departure).vanish, []string{"", "DELETED"}},
		"is created again":                   {func(d *departure) { d.vanish(); d.recreate() }, []string{"", "DELETED", "ADDED"}},
		"is missing in a list, and is changed": {
			func(d *departure) { d.link.loseList(); wait(12 * time.Minute); d.patch(d.T, `{"spec":{"size":2}}`) }, []string{"", "ADDED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			events := func(calls *callLog) *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).OnEvent("event", func(_ context.Context, req *kopf.Request[widget]) error {
					calls.addf("%s", req.Event)
					return nil
				})
			}
			playDeparture(t, events, func(d *departure) {
				test.act(d)
				wait(time.Minute)
				d.calls.expect(t, test.want...)
			})
		})
	}
}

// An object that a list lacks by mistake keeps what the process knows about it. An object that the operator does not select any more is new when it returns.
func TestDepartedObject_DataInMemory(t *testing.T) {
	memo := kopf.NewMemo[int](t.Name())
	for name, test := range map[string]struct {
		act  func(*departure)
		want []string
	}{
		"is missing in a list, and is changed": {
			func(d *departure) { d.link.loseList(); wait(12 * time.Minute); d.patch(d.T, `{"spec":{"size":2}}`) }, []string{"create 1, memo 0", "update 2, memo 1"},
		},
		"is missing in a list while some reads fail, and is changed": {
			func(d *departure) {
				d.link.loseList()
				d.link.answerReads(d.link.failures(5)) //nolint:bodyclose // it answers with errors, without a body
				wait(12 * time.Minute)
				d.patch(d.T, `{"spec":{"size":2}}`)
			}, []string{"create 1, memo 0", "update 2, memo 1"},
		},
		"loses its label, and gets it again": {
			func(d *departure) { d.setTeam("null"); wait(time.Minute); d.setTeam(`"a"`) }, []string{"create 1, memo 0", "create 1, memo 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			counted := func(calls *callLog, id string) kopf.Handler[widget] {
				return func(ctx context.Context, req *kopf.Request[widget]) error {
					value, _ := memo.Load(ctx)
					calls.addf("%s %d, memo %d", id, req.Object.Spec.Size, value)
					memo.Store(ctx, value+1)
					return nil
				}
			}
			handlers := func(calls *callLog) *kopf.Resource[widget] {
				store := kopf.StoreIn(progress.InMemory()) // the baseline is in memory, too
				return kopf.For(&v1.Widget{}).OnCreate("create", counted(calls, "create"), store).OnUpdate("update", counted(calls, "update"), store)
			}
			playDeparture(t, handlers, func(d *departure) {
				test.act(d)
				wait(time.Minute)
				d.calls.expect(t, test.want...)
			})
		})
	}
}

// The timers of an object that has left the cache are not called. They do not run, so nothing asks for the cause of their end.
func TestDepartedObject_Timers(t *testing.T) {
	timer := func(calls *callLog) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).Timer("timer", daemons.Timer{Interval: time.Minute}, logged(calls, "timer"))
	}
	playDeparture(t, timer, func(d *departure) {
		reads := d.link.countReads()
		d.setTeam("null")
		wait(time.Hour)
		if n := d.link.countReads() - reads; n != 1 {
			t.Errorf("%d reads of the object, want one, for its delete handlers", n)
		}
		d.setTeam(`"a"`)
		wait(time.Second)
		d.calls.expect(t, "timer 1", "timer 1")
	})
}

// While the API server does not serve the version of a kind, it answers that each object is not found. The operator continues when the version is served again.
func TestKindThatIsNotServed_ObjectsAreNotDeleted(t *testing.T) {
	slow := func(calls *callLog) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).
			OnCreate("create", func(context.Context, *kopf.Request[widget]) error {
				wait(time.Minute)
				calls.addf("create")
				return nil
			}).
			OnUpdate("update", logged(calls, "update"))
	}
	playDeparture(t, slow, func(d *departure) {
		d.link.answerReads(notServed)
		wait(2 * time.Minute) // the success of the handler cannot be written
		d.link.answerReads(nil)
		wait(10 * time.Minute)
		d.patch(t, `{"spec":{"size":2}}`)
		wait(time.Minute)
		d.calls.expect(t, "create", "update 2")
	})
}
