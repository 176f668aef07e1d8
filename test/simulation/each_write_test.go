package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// lifecycle records the handler calls and writes for one object. It pauses the operator at one of its writes.
type lifecycle struct {
	*operatorPair
	writes      int         // number of writes so far
	at          int         // number of the write at which the operator is paused
	writeResult writeResult // outcome of that write
	since       time.Time   // start of the pause
	resumed     bool
	running     int
	succeeded   map[string]int
	attempts    map[string]int
}

// recordStart records the start of a handler. It reports an error if the operator is paused.
func (l *lifecycle) recordStart(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[what]++
	if !l.since.IsZero() && !l.resumed && time.Since(l.since) > time.Millisecond {
		l.t.Errorf("%s was started during the pause", what)
	}
}

// pauseAtWrite pauses the operator for 20 seconds at the selected write and returns the outcome of the write.
func (l *lifecycle) pauseAtWrite(string, string) writeResult {
	if l.writes++; l.writes != l.at {
		return passes
	}
	l.record(pausingRecord)
	l.mu.Lock()
	l.since = time.Now()
	l.mu.Unlock()
	time.AfterFunc(20*time.Second, func() {
		l.mu.Lock()
		l.resumed = true
		l.mu.Unlock()
		l.record("null")
	})
	return l.writeResult
}

func (l *lifecycle) recordSuccess(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.succeeded[what]++
}

func (l *lifecycle) handler(what string, failures int) kopf.Handler[widget] {
	return func(_ context.Context, req *kopf.Request[widget]) error {
		l.recordStart(what)
		wait(10 * time.Millisecond)
		if req.Attempt.Number < failures {
			return kopf.Temporary(errors.New("no luck"), time.Second)
		}
		req.Object.Status.Log = append(req.Object.Status.Log, what)
		l.recordSuccess(what)
		return nil
	}
}

func (l *lifecycle) widgets() *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).
		OnCreate("first", l.handler("first", 1)).
		OnCreate("second", func(_ context.Context, req *kopf.Request[widget]) error {
			req.Sub("x", l.handler("second/x", 0))
			req.Sub("y", l.handler("second/y", 2))
			return nil
		}).
		OnUpdate("update", l.handler("update", 1)).
		OnDelete("delete", l.handler("delete", 1)).
		Timer("timer", daemons.Timer{Interval: 3 * time.Second}, func(_ context.Context, req *kopf.Request[widget]) error {
			l.recordStart("timer")
			if time.Since(req.Object.CreationTimestamp.Time) < 30*time.Second { // later changes would affect the number of daemons
				req.Object.Annotations = map[string]string{"ticked": time.Now().String()}
			}
			return nil
		}).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[widget]) error {
			l.recordStart("daemon")
			l.mu.Lock()
			if l.running++; l.running > 1 {
				l.t.Error("number of running daemons = 2, want 1")
			}
			l.mu.Unlock()
			<-ctx.Done()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.running--
			return nil
		})
}

func (l *lifecycle) daemons() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// PEER-50, PEER-51, PEER-53, PEER-54: an operator is paused at each of its writes, for each outcome of the write. No
// handler starts during the pause, no call is lost or repeated, and background handlers restart once.
func TestPauses_AtEachWrite(t *testing.T) {
	pauses := 0
	for result, description := range map[writeResult]string{passes: "which passes", fails: "which fails", isLost: "whose response is lost"} {
		for at, reached := 1, true; reached; at++ {
			name := fmt.Sprintf("write %d, %s", at, description)
			l := &lifecycle{at: at, writeResult: result, succeeded: map[string]int{}, attempts: map[string]int{}}
			playTwoOperators(t, func(s *operatorPair) *kopf.Resource[widget] {
				l.operatorPair = s
				s.link.set(l.pauseAtWrite)
				return l.widgets()
			}, func(s *operatorPair) {
				wait(time.Minute)
				s.resize(2)
				wait(time.Minute)
				for range 120 { // the last pause may still be active
					if l.daemons() == 1 {
						break
					}
					wait(time.Second)
				}
				if n := l.daemons(); n != 1 {
					s.t.Errorf("%s: running daemons = %d, want 1", name, n)
				}
				must(s.t, s.users.Delete(s.t.Context(), s.obj.DeepCopy()))
				wait(time.Minute)
			})
			reached = !l.since.IsZero()
			if reached {
				pauses++
			}
			delete(l.attempts, "timer")
			delete(l.attempts, "daemon")
			if want := map[string]int{"first": 1, "second/x": 1, "second/y": 1, "update": 1, "delete": 1}; !maps.Equal(l.succeeded, want) {
				t.Errorf("%s: successful calls = %v, want %v", name, l.succeeded, want)
			}
			if want := map[string]int{"first": 2, "second/x": 1, "second/y": 3, "update": 2, "delete": 2}; !maps.Equal(l.attempts, want) {
				t.Errorf("%s: attempts = %v, want %v", name, l.attempts, want)
			}
		}
	}
	t.Logf("%d pauses", pauses)
}
