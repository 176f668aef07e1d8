package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// link is the transport of one operator process, with the faults of the plan and a possible crash.
type link struct {
	world   *world
	process int // number of the operator process
	next    http.RoundTripper

	inFlight sync.RWMutex  // lock that requests hold for reading
	gone     chan struct{} // channel that is closed after a crash
	mu       sync.Mutex    // lock for the following fields
	rand     *rand.Rand
	plan     Action // kind of the planned crash
	closed   bool
	short    int // number of watches that have ended without an event
}

// shortWatches is the maximum number of watches without an event in one operator process. After each of these watches, client-go waits longer, up to
// half a minute.
const shortWatches = 6

// endsAtOnce decides whether another watch may end without an event.
func (l *link) endsAtOnce() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.short++
	return l.short <= shortWatches
}

var (
	errCut  = errors.New("simulated crash of the operator")
	errLost = errors.New("simulated loss of a response")
)

func newLink(w *world, process int) *link {
	return &link{world: w, process: process, gone: make(chan struct{}), rand: rand.New(rand.NewPCG(w.plan.Seed, 100+uint64(process)))}
}

// wrap sets the wrapped transport.
func (l *link) wrap(next http.RoundTripper) http.RoundTripper {
	l.next = next
	return l
}

// RoundTrip sends a request or injects a fault.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	if latency := l.upTo(l.world.plan.Faults.Latency); !isDiscovery(r) {
		pause(r.Context(), latency)
	}
	if l.hasCrashed() {
		return failRequest(r, errCut)
	}
	if r.Method == http.MethodPatch && l.crashIfPlanned(CrashUnsent) {
		return failRequest(r, errCut)
	}
	if code, reason := l.fault(r); code != 0 {
		return statusResponse(r, code, reason), nil
	}
	if isWatch(r) {
		return l.watch(r)
	}
	return l.send(r)
}

// isDiscovery reports whether a request is for the served kinds. The cache sends such requests under a lock for which its end waits, and virtual time does not pass
// while a goroutine waits for a lock.
func isDiscovery(r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	return parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (l *link) CloseIdleConnections() {
	if t, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// fault chooses the fault of a request. The code is 0 if the request has no fault.
func (l *link) fault(r *http.Request) (code int, reason metav1.StatusReason) {
	f := l.world.plan.Faults
	switch {
	case r.Method == http.MethodPatch && l.chance(f.Conflict):
		return http.StatusConflict, metav1.StatusReasonConflict
	case r.Method == http.MethodPatch && l.chance(f.Failing):
		return http.StatusInternalServerError, metav1.StatusReasonInternalError
	case r.Method == http.MethodPatch && l.chance(f.Busy):
		return http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	case r.Method == http.MethodGet && isObject(r) && l.chance(f.Unreadable):
		return http.StatusInternalServerError, metav1.StatusReasonInternalError
	case isWatch(r) && l.chance(f.Expired) && l.endsAtOnce():
		return http.StatusGone, metav1.StatusReasonExpired
	default:
		return 0, ""
	}
}

// send sends a request. It records the result of a write before other clients can see it.
func (l *link) send(r *http.Request) (*http.Response, error) {
	l.inFlight.RLock()
	if l.hasCrashed() {
		l.inFlight.RUnlock()
		return failRequest(r, errCut)
	}
	response, err := l.next.RoundTrip(r)
	wrote := err == nil && r.Method == http.MethodPatch && response.StatusCode < http.StatusMultipleChoices
	if wrote {
		err = l.recordWrite(response)
	}
	l.inFlight.RUnlock()
	switch {
	case err != nil:
		return nil, err
	case wrote && l.crashIfPlanned(CrashUnanswered):
		_ = response.Body.Close()
		return nil, errCut
	case wrote && l.chance(l.world.plan.Faults.Lost):
		l.world.logf("(%d) the response is lost", l.process)
		_ = response.Body.Close()
		return nil, errLost
	case l.hasCrashed():
		_ = response.Body.Close()
		return nil, errCut
	}
	return response, nil
}

// recordWrite records the response to a write.
func (l *link) recordWrite(response *http.Response) error {
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	return l.world.updateView(l.process, text)
}

// crash ends all traffic, either immediately or at the next write.
func (l *link) crash(ctx context.Context, action Action, atMost time.Duration) {
	if action != Crash {
		l.mu.Lock()
		l.plan = action
		l.mu.Unlock()
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		select {
		case <-l.gone:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	l.cut()
}

// crashIfPlanned ends all traffic if this kind of crash is planned.
func (l *link) crashIfPlanned(action Action) bool {
	l.mu.Lock()
	planned := l.plan == action
	l.mu.Unlock()
	if planned {
		l.cut()
	}
	return planned
}

// cut ends all traffic and waits for running requests.
func (l *link) cut() {
	l.mu.Lock()
	if !l.closed {
		close(l.gone)
	}
	l.closed = true
	l.mu.Unlock()
	l.inFlight.Lock()
	defer l.inFlight.Unlock()
}

func (l *link) hasCrashed() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

func (l *link) chance(p float64) bool {
	if p == 0 || l.world.faultsEnded.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rand.Float64() < p
}

func (l *link) upTo(most time.Duration) time.Duration {
	if most == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.rand.Int64N(int64(most) + 1))
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// isObject reports whether the path is /apis/<group>/<version>/namespaces/<namespace>/<plural>/<name>.
func isObject(r *http.Request) bool {
	return len(strings.Split(strings.Trim(r.URL.Path, "/"), "/")) == 7
}

// failRequest fails a request without sending it.
func failRequest(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, err
}

// statusResponse returns a response with a status.
func statusResponse(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	text, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason) + ", simulated",
	})
	if err != nil {
		panic("scenario: cannot encode a status: " + err.Error())
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}
