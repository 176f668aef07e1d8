package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch begins a stream of events: after a version, or with all objects that there are now.
func (s *Server) watch(q *request) (answer, error) {
	w := &watch{server: s, request: q, next: s.eventsUpTo(s.readVersion(q)), closed: make(chan struct{})}
	version := q.query.Get("resourceVersion")
	switch initial := q.query.Get("sendInitialEvents"); {
	case initial == "true":
		w.begin()
		w.bookmark()
	case version == "" || version == "0":
		if initial == "" {
			w.begin()
		}
	default:
		after, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return answer{}, fmt.Errorf("resourceVersion: %w", err)
		}
		w.next = s.eventsUpTo(after)
	}
	seconds, err := strconv.Atoi(q.query.Get("timeoutSeconds"))
	if err != nil {
		seconds = 1800
	}
	w.deadline = time.Now().Add(time.Duration(seconds) * time.Second)
	return answer{code: 200, stream: w}, nil
}

// A watch is the body of the answer to one. It is read by one goroutine.
type watch struct {
	server   *Server
	request  *request
	next     int // in the server's events
	deadline time.Time
	pending  bytes.Buffer
	closed   chan struct{}
	once     sync.Once
}

// begin tells all objects.
func (w *watch) begin() {
	for _, obj := range w.server.selected(w.request) {
		w.tell("ADDED", obj)
	}
}

// bookmark tells that these were all.
func (w *watch) bookmark() {
	w.tell("BOOKMARK", object{
		"apiVersion": w.request.GroupVersion.String(), "kind": w.request.Kind,
		"metadata": object{
			"resourceVersion": strconv.FormatInt(w.server.readVersion(w.request), 10),
			"annotations":     object{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
}

func (w *watch) tell(kind string, obj object) {
	// What was decoded from JSON has a JSON form.
	_ = json.NewEncoder(&w.pending).Encode(object{"type": kind, "object": w.request.view.of(obj)})
}

// see tells an event if it concerns what the watch has selected: objects come into the selection, and leave it.
func (w *watch) see(e event) {
	if !w.request.covers(e.key) {
		return
	}
	was := e.before != nil && w.request.matches(e.before)
	is := e.kind != "DELETED" && w.request.matches(e.object)
	switch {
	case is && was:
		w.tell("MODIFIED", e.object)
	case is:
		w.tell("ADDED", e.object)
	case was:
		w.tell("DELETED", withVersion(e.before, e.version))
	}
}

// Read waits for the next event.
func (w *watch) Read(p []byte) (int, error) {
	expired := time.NewTimer(time.Until(w.deadline))
	defer expired.Stop()
	for {
		if w.context().Err() != nil {
			return 0, io.EOF
		}
		news := w.catchUp()
		if w.pending.Len() > 0 {
			return w.pending.Read(p)
		}
		select {
		case <-news:
		case <-expired.C:
			return 0, io.EOF
		case <-w.closed:
			return 0, io.ErrClosedPipe
		case <-w.context().Done():
			// No error: clients for metadata would leave a goroutine behind that wants to tell of it, and nobody listens any more.
			return 0, io.EOF
		}
	}
}

func (w *watch) context() context.Context { return w.request.Context() }

// catchUp takes the next event that concerns the watch, if nothing is left to be read.
func (w *watch) catchUp() (news <-chan struct{}) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	visible := len(w.server.events)
	if w.request.replica != nil {
		visible = w.server.eventsUpTo(w.request.replica.current())
	}
	for w.pending.Len() == 0 && w.next < visible {
		e := w.server.events[w.next]
		w.next++
		w.see(e)
	}
	return w.server.later()
}

// Close ends the watch.
func (w *watch) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
