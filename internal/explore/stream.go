package explore

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxHold limits how long a watch event is delayed. It is longer than the default consistency timeout of operators.
const maxHold = 20 * time.Second

// A stream is the body of a watch response. It can delay one event at a time.
type stream struct {
	injector *Injector
	name     string
	initial  bool // whether the body is still in its initial list
	body     io.ReadCloser
	lines    chan []byte // closed at the end of the body
	closed   chan struct{}
	once     sync.Once

	ready bytes.Buffer
	held  *event
	timer *time.Timer // releases the delayed event
}

// An event is one line of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func newStream(i *Injector, name string, initial bool, body io.ReadCloser) *stream {
	s := &stream{injector: i, name: name, initial: initial, body: body, lines: make(chan []byte), closed: make(chan struct{})}
	s.timer = time.NewTimer(time.Hour)
	s.timer.Stop()
	go s.readLines()
	return s
}

func (s *stream) readLines() {
	defer close(s.lines)
	reader := bufio.NewReader(s.body)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			select {
			case s.lines <- line:
			case <-s.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read returns the pending data. If there is none, it waits for the next event. It returns io.EOF at the end of the body.
func (s *stream) Read(p []byte) (int, error) {
	for s.ready.Len() == 0 {
		select {
		case line, ok := <-s.lines:
			if !ok && s.held == nil {
				return 0, io.EOF
			}
			if !ok {
				s.release()
				continue
			}
			s.handleLine(line)
		case <-s.timer.C:
			s.release()
		case <-s.closed:
			return 0, io.ErrClosedPipe
		}
	}
	return s.ready.Read(p)
}

// release delivers the delayed event.
func (s *stream) release() {
	if s.held != nil {
		s.write(*s.held)
	}
	s.held = nil
	s.timer.Stop()
}

func (s *stream) write(e event) {
	// Encoding can't fail, because the event was decoded from JSON.
	_ = json.NewEncoder(&s.ready).Encode(e)
}

// handleLine delivers a line, delays it, or merges it into the delayed event.
func (s *stream) handleLine(line []byte) {
	var e event
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&e); err != nil || !slices.Contains([]string{"ADDED", "MODIFIED", "DELETED"}, e.Type) {
		if err == nil && e.Type == "BOOKMARK" && e.annotation(metav1.InitialEventsAnnotationKey) == "true" {
			s.initial = false
		}
		s.ready.Write(line)
		return
	}
	if s.initial {
		s.ready.Write(line)
		return
	}
	hold := s.injector.recordWatchEvent(WatchEvent{Watch: s.name, Object: e.key()}, s.held == nil)
	switch {
	case s.held != nil && s.held.key() == e.key():
		merged, visible := merge(*s.held, e)
		s.held = nil
		s.timer.Stop()
		if visible {
			s.write(merged)
		}
	case hold:
		s.held = &e
		s.timer.Reset(maxHold)
	default:
		s.ready.Write(line)
	}
}

// merge returns the event that a client receives if it misses the first of two events. It returns false if the client receives nothing.
func merge(first, second event) (event, bool) {
	switch {
	case first.Type == "ADDED" && second.Type == "DELETED":
		return event{}, false
	case first.Type == "ADDED":
		second.Type = "ADDED"
	case first.Type == "DELETED":
		second.Type = "MODIFIED" // a new object with the same name
	}
	return second, true
}

func (e event) meta() map[string]any {
	meta, _ := e.Object["metadata"].(map[string]any)
	return meta
}

func (e event) key() string {
	namespace, _ := e.meta()["namespace"].(string)
	name, _ := e.meta()["name"].(string)
	return namespace + "/" + name
}

func (e event) annotation(key string) string {
	annotations, _ := e.meta()["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

// Close ends the watch. A Read that is waiting returns io.ErrClosedPipe.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.body.Close()
}
