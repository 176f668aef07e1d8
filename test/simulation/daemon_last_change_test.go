package simulation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// lastWrite is a transport. For a limited time, it fails patches that contain the text "Stopped".
type lastWrite struct {
	next   http.RoundTripper
	answer func() (*http.Response, error)
	mu     sync.Mutex
	down   time.Duration // duration of the failures after the first patch; a negative value means forever
	since  time.Time
	last   time.Time // time of the last patch
	stored bool
}

func (l *lastWrite) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return l.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.Contains(string(body), "Stopped") {
		return l.next.RoundTrip(r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	if l.since.IsZero() {
		l.since = l.last
	}
	if l.down < 0 || l.last.Sub(l.since) < l.down {
		return l.answer()
	}
	answer, err := l.next.RoundTrip(r)
	l.stored = l.stored || err == nil && answer.StatusCode == http.StatusOK
	return answer, err
}

func (l *lastWrite) result() (stored bool, tried time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored, l.last.Sub(l.since)
}

func unavailable() (*http.Response, error) {
	const text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"simulated outage"}`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
	}, nil
}

func cutOff() (*http.Response, error) { return nil, errors.New("simulated connection failure") }

// stopDaemon runs an operator and stops its daemon by the named method. It waits for a minute and returns the logged errors.
func stopDaemon(t *testing.T, link *lastWrite, how string, daemon daemons.Daemon) (errorLogs []string) {
	t.Helper()
	var mu sync.Mutex
	logger := funcr.New(func(_, text string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(text, `"error"=`) && !strings.Contains(text, `"level"=`) {
			errorLogs = append(errorLogs, text)
		}
	}, funcr.Options{})
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		obj := makeWidget(t, users, "one")
		s := &scene{config, users, obj}
		own := *config
		link.next, own.Transport = config.Transport, link
		widgets := kopf.For(&v1.Widget{}).Daemon("watch", daemon, func(ctx context.Context, req *kopf.Request[widget]) error {
			<-ctx.Done()
			req.Object.Status.Phase = "Stopped"
			return nil
		}, kopf.Label("off", filter.Absent))
		mgr, err := manager.New(&own, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Logger: logger})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, widgets))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		wait(5 * time.Second)
		switch how {
		case "by a filter":
			s.patch(t, `{"metadata":{"labels":{"off":"yes"}}}`)
		case "by the deletion":
			must(t, users.Delete(t.Context(), obj.DeepCopy()))
		case "by the shutdown":
			stop()
		}
		wait(time.Minute)
		stop()
		must(t, <-ended)
	})
	mu.Lock()
	defer mu.Unlock()
	return errorLogs
}

var waysToStop = []string{"by a filter", "by the deletion", "by the shutdown"}

// The engine stores the last change of a stopped daemon if the API server accepts writes again within the grace period.
func TestLastChange_SurvivesFaults(t *testing.T) {
	for _, how := range waysToStop {
		for name, link := range map[string]func() *lastWrite{
			"an outage of two seconds": func() *lastWrite { return &lastWrite{answer: unavailable, down: 2 * time.Second} },
			"a connection failure":     func() *lastWrite { return &lastWrite{answer: cutOff, down: time.Millisecond} },
		} {
			for patience, daemon := range map[string]daemons.Daemon{"": {}, ", with a timeout": {CancellationTimeout: new(3 * time.Second)}} {
				t.Run(how+", "+name+patience, func(t *testing.T) {
					link := link()
					logs := stopDaemon(t, link, how, daemon)
					if stored, tried := link.result(); !stored {
						t.Errorf("the change was not stored after attempts for %s", tried)
					}
					if len(logs) > 0 {
						t.Errorf("logged errors = %q, want none", logs)
					}
				})
			}
		}
	}
}

// The engine stops retrying the last change of a daemon when its grace period ends, and logs one error.
func TestLastChange_FailsAfterTheGracePeriod(t *testing.T) {
	const standard = 15 * time.Second
	for _, how := range waysToStop {
		for patience, grace := range map[string]time.Duration{"by default": standard, "with a timeout": 4 * time.Second, "with a timeout of zero": 0} {
			t.Run(how+", "+patience, func(t *testing.T) {
				var daemon daemons.Daemon
				if grace != standard {
					daemon.CancellationTimeout = &grace
				}
				link := &lastWrite{answer: unavailable, down: -1}
				logs := stopDaemon(t, link, how, daemon)
				if stored, tried := link.result(); stored || tried > grace || tried < grace-2*time.Second {
					t.Errorf("stored = %t after attempts for %s, want false after %s", stored, tried, grace)
				}
				if len(logs) != 1 || !strings.Contains(logs[0], "last change") {
					t.Errorf("logged errors = %q, want one about the last change", logs)
				}
			})
		}
	}
}
