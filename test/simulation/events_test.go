package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// mailbox is a transport that receives all Events of both APIs and counts the writes. It passes other requests to the
// server.
type mailbox struct {
	next http.RoundTripper

	mu     sync.Mutex
	writes map[string]int    // number of writes by object name
	posted map[string][]note // notes by object name
	last   []byte            // last Event in its JSON form
}

// note is the content of an Event.
type note struct {
	Reason string `json:"reason"`
	Action string `json:"action"`
	Note   string `json:"note"`
}

func (m *mailbox) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.Contains(request.URL.Path, "/events") || request.Method == http.MethodGet {
		return m.next.RoundTrip(request)
	}
	text, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	object, _, _ := strings.Cut(path.Base(request.URL.Path), ".") // the path of a patch contains the name of the Event
	code := http.StatusOK
	if request.Method == http.MethodPost {
		m.last, code = text, http.StatusCreated
		var event struct {
			note
			Regarding, InvolvedObject struct{ Name string }
			Message                   string
		}
		if err := json.Unmarshal(text, &event); err != nil {
			return nil, err
		}
		object = event.Regarding.Name + event.InvolvedObject.Name
		event.Note += event.Message
		m.posted[object] = append(m.posted[object], event.note)
	}
	m.writes[object]++
	return &http.Response{
		StatusCode: code, Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(m.last)),
	}, nil
}

// intercept installs a mailbox in front of the server.
func intercept(config *rest.Config) *mailbox {
	box := &mailbox{next: config.Transport, writes: map[string]int{}, posted: map[string][]note{}}
	config.Transport, config.ContentType = box, "application/json"
	return box
}

// POST-08: one handler fails ten thousand times within an hour, another fails permanently, and a third one finally
// succeeds. The recorder posts only two Events.
func TestEvents_FewForManyFailures(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("the test writes thousands of times and runs only without the race detector")
	}
	const failures, hour = 2_000, time.Hour
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		box := intercept(config)
		makeWidget(t, users, "one")
		attempts := 0
		begun := time.Now()
		runFor(t, config, scheme, hour+time.Minute, kopf.For(&v1.Widget{}).
			OnCreate("never", func(context.Context, *kopf.Request[widget]) error {
				attempts++
				return errors.New("no luck")
			}, kopf.Backoff(hour/failures), kopf.ReportCondition("Lucky")).
			OnCreate("hopeless", func(context.Context, *kopf.Request[widget]) error {
				return kopf.Permanent(errors.New("no way"))
			}).
			OnCreate("late", func(context.Context, *kopf.Request[widget]) error {
				if time.Since(begun) < hour {
					return kopf.Temporary(errors.New("too early"), time.Minute)
				}
				return nil
			}))
		if attempts < failures*95/100 {
			t.Errorf("failed attempts = %d, want at least %d", attempts, failures*95/100)
		}
		t.Logf("%d failures, %d writes of Events", attempts, box.writes["one"])
		if n := box.writes["one"]; n != 2 {
			t.Errorf("writes of Events = %d, want 2", n)
		}
	})
}

// POST-08: a handler fails ten thousand times within an hour, with one or two Events each time. The recorder writes at
// most 60 Events for its object, and a metric counts the others. The recorder still posts permanent failures and Events
// of other objects.
func TestEvents_LimitedForANoisyObject(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("the test writes thousands of times and runs only without the race detector")
	}
	const failures, most, hour = 2_000, 60, time.Hour
	pause := kopf.Backoff(hour / failures)
	steps, asKopf := kopf.WithEvents(events.Options{Level: events.Steps}), kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{}})
	type handler = kopf.Handler[widget]
	widgets := kopf.For[widget]
	for name, test := range map[string]struct {
		option kopf.Option
		of     func(name string, shouts handler) *kopf.Resource[widget]
		differ bool // whether each Event has a different note, because the recorder combines equal Events
	}{
		"Eventf and an automatic Event in every attempt": {steps, func(name string, shouts handler) *kopf.Resource[widget] {
			return widgets(&v1.Widget{}, kopf.WithName(name)).OnCreate("shouts", shouts, pause)
		}, true},
		"Eventf in the form of kopf, without counts": {asKopf, func(name string, shouts handler) *kopf.Resource[widget] {
			return widgets(&v1.Widget{}, kopf.WithName(name)).OnReconcile("shouts", shouts, pause)
		}, true},
		"a timer": {steps, func(name string, shouts handler) *kopf.Resource[widget] {
			return widgets(&v1.Widget{}, kopf.WithName(name)).Timer("shouts", daemons.Timer{Interval: time.Second}, shouts, pause)
		}, false},
		"a daemon that changes its object": {steps, func(name string, shouts handler) *kopf.Resource[widget] {
			return widgets(&v1.Widget{}, kopf.WithName(name)).Daemon("shouts", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
				req.Object.Status.Phase = strconv.Itoa(req.Attempt.Number)
				return shouts(ctx, req)
			}, pause)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config, scheme, users := newWorld(t)
				box := intercept(config)
				makeWidget(t, users, "noisy")
				makeWidget(t, users, "quiet")
				var attempts atomic.Int64
				shouts := func(_ context.Context, req *kopf.Request[widget]) error {
					if req.Object.Name == "quiet" {
						return nil
					}
					attempts.Add(1)
					req.Eventf("Warning", "Retry", "Retry", "attempt %d has failed", req.Attempt.Number)
					return errors.New("no luck")
				}
				runFor(t, config, scheme, hour+time.Minute, test.option, test.of(t.Name(), shouts).
					Timer("late", daemons.Timer{Interval: hour}, func(_ context.Context, req *kopf.Request[widget]) error {
						req.Eventf("Normal", "Late", "Wait", "at last")
						return kopf.Permanent(errors.New("too late"))
					}, kopf.InitialDelay(hour-2*time.Minute)))

				box.mu.Lock()
				defer box.mu.Unlock()
				noisy, quiet := box.posted["noisy"], box.posted["quiet"]
				reported := len(noisy)
				for _, one := range noisy {
					if found := unposted.FindStringSubmatch(one.Note); found != nil {
						more, _ := strconv.Atoi(found[1])
						reported += more
					}
				}
				t.Logf("%d failures, %d writes of %d Events, %d reported", attempts.Load(), box.writes["noisy"], len(noisy), reported)
				if n := attempts.Load(); n < failures*95/100 {
					t.Errorf("failed attempts = %d, want at least %d", n, failures*95/100)
				}
				if n := box.writes["noisy"]; n > most {
					t.Errorf("writes of Events about the noisy object = %d, want at most %d", n, most)
				}
				if least := int(attempts.Load()) * 8 / 10; test.differ && reported < least {
					t.Errorf("reported Events = %d, want at least %d", reported, least)
				} else if n := unpostedEvents(t); n < least {
					t.Errorf("Events counted as not posted = %d, want at least %d", n, least)
				}
				failed := func(one note) bool {
					return strings.HasPrefix(one.Note, "late: too late") && one.Reason == "HandlerFailed"
				}
				late := func(one note) bool { return one.Note == "at last" }
				if !slices.ContainsFunc(noisy, failed) {
					t.Errorf("Events about the permanent failure = 0, want at least 1")
				}
				if !slices.ContainsFunc(quiet, failed) || !slices.ContainsFunc(quiet, late) {
					t.Errorf("Events about the quiet object = %v, want both failures", quiet)
				}
			})
		})
	}
}

var unposted = regexp.MustCompile(`before this, (\d+) other Events`)

// unpostedEvents returns the metric of unposted Events for the operator of a test.
func unpostedEvents(t *testing.T) (n int) {
	families, err := metrics.Registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == "kopf_unposted_events_total" && series.GetLabel()[0].GetValue() == t.Name() {
				n += int(series.GetCounter().GetValue())
			}
		}
	}
	return n
}
