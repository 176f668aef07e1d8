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
)

// A link is the way of one operator to the server: it takes note of what is written, and has its way with requests.
type connection struct {
	mu           sync.Mutex
	all          []Write
	events       []Event
	faults       []*Fault
	closed       bool
	onDisconnect func()

	injector *explore.Injector        // has faults happen by the numbers of writes and notices; nil: none
	wrap     explore.TransportWrapper // around the connection; nil: nothing
	replica  *apiserver.Replica       // is asked instead of the server; nil: the server is asked
}

// A faultTransport is a link on one transport: each client that is made of the config has its own.
type faultTransport struct {
	*connection
	next http.RoundTripper
}

// transport puts the link on a transport.
func (l *connection) transport(next http.RoundTripper) http.RoundTripper {
	return &faultTransport{l, next}
}

// CloseIdleConnections passes on what HTTP clients ask their transports for.
func (l *faultTransport) CloseIdleConnections() {
	if t, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// RoundTrip sends a request, and takes note of it.
func (l *faultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	req := parse(r)
	text, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if req.writes() && isAdmissionSetup(req.write(r.Header.Get("Content-Type"), text)) {
		if l.disconnected() {
			return nil, errCrashed
		}
		return l.next.RoundTrip(r)
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
	if l.disconnected() { // meanwhile
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

// maxEventNames is how many Events about one object can be posted in the same nanosecond.
const maxEventNames = 1000

// createWithFreeName posts an Event under other names until one is free. client-go names Events by the time in nanoseconds, which
// stands still in virtual time, and drops an Event whose name is taken.
func (l *faultTransport) createWithFreeName(r *http.Request, text []byte, refused *http.Response) (*http.Response, error) {
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("the Event has no JSON form: %w", err)
	}
	meta, _ := content["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	for n := 1; name != "" && n < maxEventNames && refused.StatusCode == http.StatusConflict; n++ {
		meta["name"] = fmt.Sprintf("%s-%d", name, n)
		body, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		_ = refused.Body.Close()
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if refused, err = l.next.RoundTrip(again); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// send asks the server, or the replica, and has the injector look at what watches bring.
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

// meets finds what is to happen to a request. The caller must call done when the server has handled the request.
func (l *connection) planFaults(req request, r *http.Request, body []byte) (fault Fault, crash explore.Kind, done func()) {
	done = func() {}
	if l.injector != nil && req.writes() && !req.isEvent() && !l.disconnected() {
		w := req.write(r.Header.Get("Content-Type"), body)
		text := req.verb + " " + req.resource
		if req.subresource != "" {
			text += " " + req.subresource
		}
		number, kind := l.injector.Begin(explore.Write{Request: text, Object: w.Namespace + "/" + w.Name, Fields: explore.FieldGroups(w.Body), Body: string(body)})
		done = func() { l.injector.End(number) }
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

// faultsByKind are the faults of the explorer that are no crashes.
var faultsByKind = map[explore.Kind]Fault{
	explore.Conflict: {Code: http.StatusConflict}, explore.Failed: {Code: http.StatusInternalServerError},
	explore.Unavailable: {Code: http.StatusServiceUnavailable}, explore.Lost: {Lost: true},
}

// note takes note of a write; what it returns adds the answer.
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
			if w.Verb == "create" && code < http.StatusBadRequest { // else it repeats one that was posted, or was not
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

// sever ends all ways to the server, as the death of a process does.
func (l *connection) disconnect() {
	l.mu.Lock()
	first, tell := !l.closed, l.onDisconnect
	l.closed = true
	l.mu.Unlock()
	if first && tell != nil {
		tell()
	}
}

func (l *connection) disconnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// bodyOf reads the body of a request, and leaves another one like it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	text, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(text))
	return text, err
}

// pause waits before a request, unless that is given up.
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

// refusal is an answer in place of the server's.
func errorResponse(r *http.Request, code int) *http.Response {
	text, err := json.Marshal(statusForCode(code))
	if err != nil {
		panic("kopftest: a status has no JSON form: " + err.Error())
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
