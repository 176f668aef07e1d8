package daemons_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var (
	errBoom = errors.New("boom")
	key     = daemons.Key{UID: "uid-1", ID: "watch"}
)

// A scene is a supervisor that runs under a clock that only moves when everybody waits.
type scene struct {
	*testing.T
	*daemons.Supervisor
	began time.Time
	kind  string // its own in the metrics, which all tests share
	stop  func() // ends the context of the supervisor
	done  chan error

	mu    sync.Mutex
	lines []string // of the log
	ends  []daemons.Key
	calls []call
}

// A call is an invocation: when it began, since the beginning of the scene, and which attempt it was.
type call struct {
	At      time.Duration
	Attempt int
}

var scenes atomic.Int64

// play runs a scene with a supervisor that is started; afterwards it is shut down, and no goroutine may be left.
func play(t *testing.T, options daemons.Options, act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, began: time.Now(), kind: fmt.Sprint("kind-", scenes.Add(1)), done: make(chan error, 1)}
		options.OnEnd = s.onEnd
		s.Supervisor = daemons.New(options)
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(s.log, funcr.Options{Verbosity: 1})))
		s.stop = cancel
		go func() { s.done <- s.Start(ctx) }()
		synctest.Wait()
		act(s)
		s.stop()
		if err := <-s.done; err != nil {
			t.Errorf("Start: %v", err)
		}
		pass(24 * time.Hour) // for those that were abandoned
		s.done <- nil
	})
}

func (s *scene) log(_, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

// logged are the lines of the log since the last time.
func (s *scene) logged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return lines
}

// find returns the lines of the log with a text.
func (s *scene) find(text string) (found []string) {
	for _, line := range s.logged() {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (s *scene) onEnd(key daemons.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, key)
}

// ended tells how often the owner was told of an end since the last time.
func (s *scene) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ends)
	s.ends = nil
	return n
}

// pass lets time go by, and everything happen that happens then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *scene) ensure(task daemons.Task) {
	s.Helper()
	if err := s.Ensure(key, task); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

// noting is a function for tasks that notes its invocations, and then does something; nil for nothing.
func (s *scene) noting(do func(ctx context.Context, n int) error) func(context.Context, progress.Attempt) error {
	return func(ctx context.Context, attempt progress.Attempt) error {
		s.mu.Lock()
		n := len(s.calls)
		s.calls = append(s.calls, call{time.Since(s.began), attempt.Number})
		s.mu.Unlock()
		if do == nil {
			return nil
		}
		return do(ctx, n)
	}
}

// times are those of the invocations so far.
func (s *scene) times() (times []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		times = append(times, c.At)
	}
	return times
}

func (s *scene) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *scene) same(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// untilStopped is a daemon that does as it is told.
func untilStopped(ctx context.Context, _ int) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// deaf ignores its context for so long.
func deaf(d time.Duration) func(context.Context, int) error {
	return func(context.Context, int) error {
		<-time.After(d)
		return nil
	}
}

func seconds(n ...float64) (times []time.Duration) {
	for _, s := range n {
		times = append(times, time.Duration(s*float64(time.Second)))
	}
	return times
}

type attempt = progress.Attempt

// epoch is when each scene begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// value is that of a counter or gauge.
func value(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

func histogram(t *testing.T, o prometheus.Observer) (count uint64, sum float64) {
	t.Helper()
	var out dto.Metric
	if err := o.(prometheus.Metric).Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetHistogram().GetSampleCount(), out.GetHistogram().GetSampleSum()
}
