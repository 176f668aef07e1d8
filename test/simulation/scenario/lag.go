package scenario

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// watch sends a watch request and delays the events of the response. It may end the watch early.
func (l *link) watch(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	s := &lagging{Closer: response.Body, frames: make(chan frame, 1000), closed: make(chan struct{}), link: l}
	go s.fill(json.NewDecoder(response.Body))
	response.Body, response.ContentLength = s, -1
	return response, nil
}

// lagging is the body of a watch that delivers each event after its delay.
type lagging struct {
	io.Closer
	link   *link
	frames chan frame // channel that is closed after the last frame
	rest   []byte
	last   error // error at the end of the watch; valid when frames is closed
	closed chan struct{}
	once   sync.Once
}

type frame struct {
	text []byte
	due  time.Time
}

// fill reads the events from the server.
func (s *lagging) fill(from *json.Decoder) {
	defer close(s.frames)
	var due time.Time
	for first := true; ; first = false {
		var text json.RawMessage
		if s.last = from.Decode(&text); s.last != nil {
			return
		}
		if s.link.chance(s.link.world.plan.Faults.Break) && (!first || s.link.endsAtOnce()) {
			s.last = io.EOF
			return
		}
		if next := time.Now().Add(s.link.upTo(s.link.world.plan.Faults.Lag)); next.After(due) {
			due = next // events keep their order
		}
		select {
		case s.frames <- frame{append(text, '\n'), due}:
		case <-s.closed:
			return
		}
	}
}

// Read waits until the next event is due.
func (s *lagging) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case next, ok := <-s.frames:
			if !ok {
				return 0, s.last
			}
			if !s.wait(time.Until(next.due)) {
				return 0, errCut
			}
			s.rest = next.text
		case <-s.closed:
			return 0, io.ErrClosedPipe
		case <-s.link.gone:
			return 0, errCut
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *lagging) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closed:
	case <-s.link.gone:
	}
	return false
}

// Close ends the watch.
func (s *lagging) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Closer.Close()
}
