package kopftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// A connection connects one operator to the server. All its transports share it. The connection records writes and injects faults.
type connection struct {
	mu     sync.Mutex
	all    []Write
	events []Event
	used   []rbac.Need // permissions that the requests needed

	servesAdmission bool // whether package kopftest serves the admission handlers

	faults       []*Fault
	closed       bool
	onDisconnect func()

	injector *explore.Injector        // injects a plan's faults; may be nil
	wrap     explore.TransportWrapper // wraps the connection's transports; may be nil
	replica  *apiserver.Replica       // answers in place of the server; may be nil
}

// A faultTransport sends the requests of one HTTP client over a connection.
type faultTransport struct {
	*connection
	next http.RoundTripper
}

func (l *connection) transport(next http.RoundTripper) http.RoundTripper {
	return &faultTransport{l, next}
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (l *faultTransport) CloseIdleConnections() {
	if t, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// RoundTrip records a request, applies its fault and sends it.
func (l *faultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	req := parse(r)
	text, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if l.servesAdmission && isAdmissionSetup(req, req.write(r.Header.Get("Content-Type"), text), r.URL.Query()) {
		if l.disconnected() {
			return nil, errCrashed
		}
		return l.next.RoundTrip(withoutUser(r)) // the operator's role doesn't cover kopftest's own objects
	}
	fault, crash, done := l.planFaults(req, r, text)
	if crash == explore.CrashBefore {
		l.disconnect()
	}
	if l.disconnected() {
		return nil, errCrashed
	}
	if fault.Before != nil {
		fault.Before()
	}
	if !awaitDelay(r, fault.Delay) {
		return nil, r.Context().Err()
	}
	if l.disconnected() { // the operator crashed during the delay
		return nil, errCrashed
	}
	note := l.recordWrite(req, r.Header.Get("Content-Type"), text)
	if fault.Code != 0 {
		note(fault.Code)
		return errorResponse(r, fault.Code), nil
	}
	response, err := l.send(req, r)
	if err == nil && response.StatusCode == http.StatusConflict && req.isEvent() && req.verb == "create" {
		response, err = l.createWithFreeName(r, text, response)
	}
	if err != nil {
		return nil, err
	}
	done()
	note(response.StatusCode)
	l.recordUse(req, response.StatusCode)
	switch {
	case crash == explore.CrashAfter:
		_ = response.Body.Close()
		l.disconnect()
		return nil, errCrashed
	case fault.Lost:
		_ = response.Body.Close()
		return nil, errResponseLost
	}
	return response, nil
}

// maxEventNames limits how many names createWithFreeName tries.
const maxEventNames = 1000

// createWithFreeName tries to create an Event with other names until one is free. client-go derives Event names from the time in
// nanoseconds, and drops an Event whose name exists, but in virtual time, several Events can have the same time.
func (l *faultTransport) createWithFreeName(r *http.Request, text []byte, response *http.Response) (*http.Response, error) {
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("decode Event: %w", err)
	}
	meta, _ := content["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	for n := 1; name != "" && n < maxEventNames && response.StatusCode == http.StatusConflict; n++ {
		meta["name"] = fmt.Sprintf("%s-%d", name, n)
		body, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		_ = response.Body.Close()
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if response, err = l.next.RoundTrip(again); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// send sends a request to the server or to the replica. The injector can delay the events of a watch.
func (l *faultTransport) send(req request, r *http.Request) (*http.Response, error) {
	next := l.next
	if l.replica != nil {
		next = l.replica
	}
	response, err := next.RoundTrip(r)
	if err != nil || l.injector == nil || req.verb != "watch" || response.StatusCode != http.StatusOK || req.isEventOrLease() {
		return response, err
	}
	name := req.resource
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		name += ", metadata"
	}
	response.Body = l.injector.Watch(name, r.URL.Query().Get("sendInitialEvents") == "true", response.Body)
	return response, nil
}

// planFaults returns the fault for a request, and the kind of crash. The caller must call done when the server has handled the request.
func (l *connection) planFaults(req request, r *http.Request, body []byte) (fault Fault, crash explore.Kind, done func()) {
	done = func() {}
	if l.injector != nil && req.writes() && !req.isEvent() && !l.disconnected() {
		w := req.write(r.Header.Get("Content-Type"), body)
		text := req.verb + " " + req.resource
		if req.subresource != "" {
			text += " " + req.subresource
		}
		number, kind := l.injector.BeginWrite(explore.Write{Request: text, Object: w.Namespace + "/" + w.Name, Fields: explore.WrittenFieldGroups(w.Body), Body: string(body)})
		done = func() { l.injector.EndWrite(number) }
		if f, ok := faultsByKind[kind]; ok {
			return f, "", done
		}
		crash = kind
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		if f.matches(req) && f.applies() {
			return *f, crash, done
		}
	}
	return Fault{}, crash, done
}

// faultsByKind maps package explore's kinds to faults, except for crashes, which RoundTrip handles.
var faultsByKind = map[explore.Kind]Fault{
	explore.Conflict: {Code: http.StatusConflict}, explore.Failed: {Code: http.StatusInternalServerError},
	explore.Unavailable: {Code: http.StatusServiceUnavailable}, explore.Lost: {Lost: true},
}

// recordWrite records a write. The returned function adds the response's status code.
func (l *connection) recordWrite(r request, contentType string, body []byte) func(code int) {
	if !r.writes() {
		return func(int) {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := r.write(contentType, body)
	if r.isEvent() {
		return func(code int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if w.Verb == "create" && code < http.StatusBadRequest { // a patch only increments the count of a recorded Event
				l.events = append(l.events, w.event())
			}
		}
	}
	i := len(l.all)
	l.all = append(l.all, w)
	return func(code int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all[i].Code = code
	}
}

func (l *connection) writes() []Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (l *connection) postedEvents() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// disconnect drops all further requests, as if the process had died.
func (l *connection) disconnect() {
	l.mu.Lock()
	first, callback := !l.closed, l.onDisconnect
	l.closed = true
	l.mu.Unlock()
	if first && callback != nil {
		callback()
	}
}

func (l *connection) disconnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// readBody reads the body of a request and replaces it with a copy.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	text, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(text))
	return text, err
}

// awaitDelay waits for d. It returns false if the request is cancelled first.
func awaitDelay(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// errorResponse returns the response that a server would send with the status code.
func errorResponse(r *http.Request, code int) *http.Response {
	text, err := json.Marshal(statusForCode(code))
	if err != nil {
		panic("kopftest: encode status: " + err.Error())
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Request: r, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}
