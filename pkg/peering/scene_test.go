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

// A scene is a server and operators, under a clock that moves only when everybody waits.
type scene struct {
	*testing.T
	*fakeServer
	began time.Time
}

// play runs a scene, with a cluster-wide peering object if there is a status for it.
func play(t *testing.T, act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		act(&scene{T: t, fakeServer: newFakeServer(clusterPeerings, namespacedPeerings), began: time.Now()})
	})
}

// An actor is an operator in a scene.
type actor struct {
	*Peering
	events *events.FakeRecorder
	cancel context.CancelFunc
	done   chan error
	slept  atomic.Int64 // nanoseconds: by how much the clock on the wall has gone on alone

	mu          sync.Mutex
	lines       []string
	transitions []Transition
}

func (s *scene) start(options Options) *actor {
	a := s.prepare(options)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() { a.done <- a.Start(ctx) }()
	s.Cleanup(a.stop)
	synctest.Wait()
	return a
}

func (s *scene) prepare(options Options) *actor {
	if options.Identity == "" {
		options.Identity = "somebody" // otherwise the host would be looked up, and that is outside of virtual time
	}
	a := &actor{events: events.NewFakeRecorder(1000), done: make(chan error, 1), cancel: func() {}}
	log := funcr.New(func(_, args string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines = append(a.lines, args)
	}, funcr.Options{Verbosity: 1})
	a.Peering = newPeering(s.fakeServer, a.events, log, options)
	a.wall = func() time.Time { return wallClock().Add(time.Duration(a.slept.Load())) }
	a.Subscribe(func(tr Transition) { a.transitions = append(a.transitions, tr) })
	return a
}

// stop ends an operator in good order.
func (a *actor) stop() {
	a.cancel()
	if a.done != nil {
		if err := <-a.done; err != nil {
			panic(err)
		}
		a.done = nil
	}
}

func (a *actor) logged(part string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (a *actor) posted() (all []string) {
	for {
		select {
		case e := <-a.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func (s *scene) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect tells whether an operator is paused, and a part of the reason.
func (s *scene) expect(a *actor, paused bool, why string) {
	s.Helper()
	if got, because := a.Paused(""); got != paused || !strings.Contains(because, why) {
		s.Errorf("after %s: paused is %t, because %q; it should be %t, because %q", time.Since(s.began), got, because, paused, why)
	}
}

func (s *scene) identities(key string) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(s.status(key))))
}

func (s *scene) equal(what string, got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("after %s: %s: %v, not %v", time.Since(s.began), what, got, want)
	}
}

// python is a record as kopf writes it.
func python(priority int, lifetime time.Duration) any {
	return raw(Record{Priority: priority, Lifetime: lifetime, LastSeen: time.Now()})
}

func raw(record Record) any {
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
