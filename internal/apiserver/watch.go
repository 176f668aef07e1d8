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

// watch starts a stream of events: those after the request's resourceVersion, or all selected objects and then what follows. The stream
// ends after timeoutSeconds, by default 1800.
func (s *Server) watch(q *request) (reply, error) {
	w := &watch{server: s, request: q, next: s.countEventsUpTo(s.readVersion(q)), closed: make(chan struct{})}
	version := q.query.Get("resourceVersion")
	switch initial := q.query.Get("sendInitialEvents"); {
	case initial == "true":
		w.writeInitialEvents()
		w.writeBookmark()
	case version == "" || version == "0":
		if initial == "" {
			w.writeInitialEvents()
		}
	default:
		after, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return reply{}, fmt.Errorf("resourceVersion: %w", err)
		}
		w.next = s.countEventsUpTo(after)
	}
	seconds, err := strconv.Atoi(q.query.Get("timeoutSeconds"))
	if err != nil {
		seconds = 1800
	}
	w.deadline = time.Now().Add(time.Duration(seconds) * time.Second)
	return reply{code: 200, stream: w}, nil
}

// A watch is the body of a watch response. Only one goroutine at a time may read it.
type watch struct {
	server   *Server
	request  *request
	next     int // index of the next event in the server's events
	deadline time.Time
	pending  bytes.Buffer
	closed   chan struct{}
	once     sync.Once
}

// writeInitialEvents writes an event for each existing object that the request selects.
func (w *watch) writeInitialEvents() {
	for _, obj := range w.server.selectObjects(w.request) {
		w.writeEvent("ADDED", obj)
	}
}

// writeBookmark writes the bookmark that follows the initial events.
func (w *watch) writeBookmark() {
	w.writeEvent("BOOKMARK", object{
		"apiVersion": w.request.GroupVersion.String(), "kind": w.request.Kind,
		"metadata": object{
			"resourceVersion": strconv.FormatInt(w.server.readVersion(w.request), 10),
			"annotations":     object{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
}

func (w *watch) writeEvent(kind string, obj object) {
	// Encoding can't fail, because the object was decoded from JSON.
	_ = json.NewEncoder(&w.pending).Encode(object{"type": kind, "object": w.request.view.of(obj)})
}

// deliver writes an event if the watch selects its object. An object that starts or stops matching the selectors is reported as added or
// deleted.
func (w *watch) deliver(e event) {
	if !w.request.covers(e.key) {
		return
	}
	was := e.before != nil && w.request.matches(e.before)
	is := e.kind != "DELETED" && w.request.matches(e.object)
	switch {
	case is && was:
		w.writeEvent("MODIFIED", e.object)
	case is:
		w.writeEvent("ADDED", e.object)
	case was:
		w.writeEvent("DELETED", withVersion(e.before, e.version))
	}
}

// Read returns the pending data. If there is none, it waits for the next event. It returns io.EOF when the timeout expires or the context
// is cancelled.
func (w *watch) Read(p []byte) (int, error) {
	expired := time.NewTimer(time.Until(w.deadline))
	defer expired.Stop()
	for {
		if w.context().Err() != nil {
			return 0, io.EOF
		}
		changed := w.nextEvents()
		if w.pending.Len() > 0 {
			return w.pending.Read(p)
		}
		select {
		case <-changed:
		case <-expired.C:
			return 0, io.EOF
		case <-w.closed:
			return 0, io.ErrClosedPipe
		case <-w.context().Done():
			// With any other error, a goroutine in metadata clients would wait forever for a reader that no longer exists.
			return 0, io.EOF
		}
	}
}

func (w *watch) context() context.Context { return w.request.Context() }

// nextEvents reads events until it finds one to deliver. While data is still unread, it doesn't read any. It returns the channel of
// nextChange.
func (w *watch) nextEvents() (changed <-chan struct{}) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	visible := len(w.server.events)
	if w.request.replica != nil {
		visible = w.server.countEventsUpTo(w.request.replica.current())
	}
	for w.pending.Len() == 0 && w.next < visible {
		e := w.server.events[w.next]
		w.next++
		w.deliver(e)
	}
	return w.server.nextChange()
}

// Close ends the watch. A Read that is waiting returns io.ErrClosedPipe.
func (w *watch) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
