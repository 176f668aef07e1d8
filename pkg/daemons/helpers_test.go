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

// supervisorTest runs a supervisor with a fake clock that advances only when all goroutines are blocked.
type supervisorTest struct {
	*testing.T
	*daemons.Supervisor
	start  time.Time
	kind   string // unique label, because all tests share the metrics
	cancel func() // function that cancels the context of the supervisor
	done   chan error

	mu        sync.Mutex
	logLines  []string // lines of the log
	endedKeys []daemons.Key
	callLog   []call
}

// call is an invocation: its time since the start of the test and the number of the attempt.
type call struct {
	At      time.Duration
	Attempt int
}

var testCounter atomic.Int64

// runTest starts a supervisor, calls act and stops the supervisor. The test fails if a goroutine remains.
func runTest(t *testing.T, options daemons.Options, act func(*supervisorTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &supervisorTest{T: t, start: time.Now(), kind: fmt.Sprint("kind-", testCounter.Add(1)), done: make(chan error, 1)}
		options.OnEnd = s.onEnd
		s.Supervisor = daemons.New(options)
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(s.appendLog, funcr.Options{Verbosity: 1})))
		s.cancel = cancel
		go func() { s.done <- s.Start(ctx) }()
		synctest.Wait()
		act(s)
		s.cancel()
		if err := <-s.done; err != nil {
			t.Errorf("Start returned %v, want no error", err)
		}
		advance(24 * time.Hour) // abandoned runs may still end
		s.done <- nil
	})
}

func (s *supervisorTest) appendLog(_, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLines = append(s.logLines, line)
}

// takeLog returns the log lines since the previous call.
func (s *supervisorTest) takeLog() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.logLines
	s.logLines = nil
	return lines
}

// findLog returns the log lines with the text since the previous call.
func (s *supervisorTest) findLog(text string) (found []string) {
	for _, line := range s.takeLog() {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (s *supervisorTest) onEnd(key daemons.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endedKeys = append(s.endedKeys, key)
}

// takeEnds returns the number of calls of OnEnd since the previous call.
func (s *supervisorTest) takeEnds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.endedKeys)
	s.endedKeys = nil
	return n
}

// advance advances the clock and waits until all goroutines are blocked.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *supervisorTest) mustEnsure(task daemons.Task) {
	s.Helper()
	if err := s.Ensure(key, task); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

// recordCalls returns a function for tasks that records each call and then calls do, if it is not nil.
func (s *supervisorTest) recordCalls(do func(ctx context.Context, n int) error) func(context.Context, progress.Attempt) error {
	return func(ctx context.Context, attempt progress.Attempt) error {
		s.mu.Lock()
		n := len(s.callLog)
		s.callLog = append(s.callLog, call{time.Since(s.start), attempt.Number})
		s.mu.Unlock()
		if do == nil {
			return nil
		}
		return do(ctx, n)
	}
}

// callTimes returns the times of all calls.
func (s *supervisorTest) callTimes() (times []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.callLog {
		times = append(times, c.At)
	}
	return times
}

func (s *supervisorTest) recordedCalls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.callLog)
}

func (s *supervisorTest) equal(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// waitForStop returns when its context is canceled.
func waitForStop(ctx context.Context, _ int) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// ignoreContext returns a function that runs for a duration, even if its context is canceled.
func ignoreContext(d time.Duration) func(context.Context, int) error {
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

// epoch is the start time of each test.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// metricValue returns the value of a counter or gauge.
func metricValue(t *testing.T, m prometheus.Metric) float64 {
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
