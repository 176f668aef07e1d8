package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch begins a stream of events: after a version, or with all objects that there are now.
func (s *Server) watch(r *http.Request, t target) answer {
	query := r.URL.Query()
	w := &watch{server: s, target: t, next: len(s.events), closed: make(chan struct{}), request: r.Context()}
	switch version := query.Get("resourceVersion"); {
	case query.Get("sendInitialEvents") == "true":
		w.begin()
	case version != "" && version != "0":
		after, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "resourceVersion: "+err.Error())
		}
		for w.next > 0 && s.events[w.next-1].version > after {
			w.next--
		}
	}
	seconds, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil {
		seconds = 1800
	}
	w.deadline = time.Now().Add(time.Duration(seconds) * time.Second)
	return answer{http.StatusOK, nil, w}
}

// A watch is the body of the answer to one. It is read by one goroutine.
type watch struct {
	server   *Server
	target   target
	next     int // in the server's events
	deadline time.Time
	pending  bytes.Buffer

	request context.Context
	closed  chan struct{}
	once    sync.Once
}

// begin tells all objects, and that these were all.
func (w *watch) begin() {
	for _, obj := range w.server.present(w.target) {
		w.tell("ADDED", obj)
	}
	w.tell("BOOKMARK", object{
		"apiVersion": w.server.group.String(), "kind": w.target.Kind,
		"metadata": object{
			"resourceVersion": strconv.FormatInt(w.server.version, 10),
			"annotations":     object{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
}

func (w *watch) tell(kind string, obj object) {
	// What was decoded from JSON has a JSON form.
	_ = json.NewEncoder(&w.pending).Encode(object{"type": kind, "object": obj})
}

// Read waits for the next event.
func (w *watch) Read(p []byte) (int, error) {
	expired := time.NewTimer(time.Until(w.deadline))
	defer expired.Stop()
	for {
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
		case <-w.request.Done():
			return 0, w.request.Err()
		}
	}
}

// catchUp takes the next event that concerns the watch, if nothing is left to be read.
func (w *watch) catchUp() (news <-chan struct{}) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for w.pending.Len() == 0 && w.next < len(w.server.events) {
		e := w.server.events[w.next]
		w.next++
		if w.target.covers(e.key) {
			w.tell(e.kind, e.object)
		}
	}
	return w.server.news
}

// Close ends the watch.
func (w *watch) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
