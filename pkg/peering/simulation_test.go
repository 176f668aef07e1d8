package peering

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/tools/events"
)

const defaultKey = clusterPeerings + "//default"

// simulation is a server with operators in virtual time.
type simulation struct {
	*testing.T
	*fakeServer
	began time.Time
}

// simulate runs a simulation.
func simulate(t *testing.T, act func(*simulation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		act(&simulation{T: t, fakeServer: newFakeServer(clusterPeerings, namespacedPeerings), began: time.Now()})
	})
}

// operator is an operator in a simulation.
type operator struct {
	*Peering
	events     *events.FakeRecorder
	cancel     context.CancelFunc
	done       chan error
	wallOffset atomic.Int64 // nanoseconds by which the wall clock is ahead of the monotonic clock

	mu          sync.Mutex
	lines       []string
	transitions []Transition
}

func (s *simulation) start(options Options) *operator {
	a := s.newOperator(options)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() { a.done <- a.Start(ctx) }()
	s.Cleanup(a.stop)
	synctest.Wait()
	return a
}

func (s *simulation) newOperator(options Options) *operator {
	if options.Identity == "" {
		options.Identity = "default-identity" // host name lookups do not work in virtual time
	}
	a := &operator{events: events.NewFakeRecorder(1000), done: make(chan error, 1), cancel: func() {}}
	log := funcr.New(func(_, args string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines = append(a.lines, args)
	}, funcr.Options{Verbosity: 1})
	a.Peering = newPeering(s.fakeServer, a.events, log, options)
	a.wallClock = func() time.Time { return time.Now().Add(time.Duration(a.wallOffset.Load())) }
	a.Subscribe(func(tr Transition) { a.transitions = append(a.transitions, tr) })
	return a
}

// stop shuts an operator down.
func (a *operator) stop() {
	a.cancel()
	if a.done != nil {
		if err := <-a.done; err != nil {
			panic(err)
		}
		a.done = nil
	}
}

func (a *operator) logged(part string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (a *operator) takeEvents() (all []string) {
	for {
		select {
		case e := <-a.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (s *simulation) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect checks whether an operator is paused and a part of the message.
func (s *simulation) expect(a *operator, paused bool, why string) {
	s.Helper()
	if got, message := a.Paused(""); got != paused || !strings.Contains(message, why) {
		s.Errorf("after %s: paused = %t (%q), want %t (%q)", time.Since(s.began), got, message, paused, why)
	}
}

func (s *simulation) identities(key string) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(s.status(key))))
}

func (s *simulation) equal(subject string, got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("after %s: %s: got %v, want %v", time.Since(s.began), subject, got, want)
	}
}

// kopfRecord returns a record in kopf's format.
func kopfRecord(priority int, lifetime time.Duration) any {
	return rawRecord(Record{Priority: priority, Lifetime: lifetime, LastSeen: time.Now()})
}

func rawRecord(record Record) any {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	return json.RawMessage(text)
}

func gauge(vec *prometheus.GaugeVec, labels ...string) float64 {
	m := &dto.Metric{}
	if err := vec.WithLabelValues(labels...).Write(m); err != nil {
		panic(err)
	}
	return m.GetGauge().GetValue()
}
