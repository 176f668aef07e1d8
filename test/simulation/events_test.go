package simulation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A mailbox takes all Events, and counts the writes. Other requests go on to the server.
type mailbox struct {
	next   http.RoundTripper
	writes atomic.Int64

	mu   sync.Mutex
	last []byte // Event, in its JSON form
}

func (m *mailbox) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(request.URL.Path, "/apis/events.k8s.io/") {
		return m.next.RoundTrip(request)
	}
	m.writes.Add(1)
	text, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	code := http.StatusOK
	if request.Method == http.MethodPost {
		m.last, code = text, http.StatusCreated
	}
	return &http.Response{
		StatusCode: code, Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(m.last)),
	}, nil
}

// POST-08: a handler fails ten thousand times within an hour, another one for good, and a third one in the end succeeds:
// that is news twice.
func TestFailuresDoNotFloodAnybody(t *testing.T) {
	if testing.Short() {
		t.Skip("writes twenty thousand times")
	}
	const failures, hour = 10_000, time.Hour
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		box := &mailbox{next: config.Transport}
		config.Transport = box
		config.ContentType = "application/json"
		makeWidget(t, users, "one")
		attempts := 0
		begun := time.Now()
		live(t, config, scheme, hour+time.Minute, kopf.For(&v1.Widget{}).
			OnCreate("never", func(context.Context, *kopf.Request[widget]) error {
				attempts++
				return errors.New("no luck")
			}, kopf.Backoff(hour/failures), kopf.ReportsCondition("Lucky")).
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
			t.Errorf("the handler has failed %d times only", attempts)
		}
		t.Logf("%d failures, %d writes of Events", attempts, box.writes.Load())
		if n := box.writes.Load(); n != 2 {
			t.Errorf("Events were written %d times, and there were two transitions", n)
		}
	})
}
