package peering

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// PEER-40: a standalone operator sends no requests and never pauses.
func TestStandalone(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(9)}})
		a := s.start(Options{Standalone: true, Mandatory: true, Priority: -5})
		s.wait(time.Hour)
		s.expect(a, false, "standalone")
		s.equal("requests", len(s.takePatches())+len(s.watchers)+s.discoveryRequests, 0)
		s.equal("error of WaitForPeers", a.WaitForPeers(s.Context()), nil)
		s.equal("ready", a.Readyz(nil), nil)
		a.stop()
		s.expect(a, false, "standalone")
	})
}

// B-50, PEER-41, SE-37: in all modes, an operator is paused until it has observed its peers. kopf starts immediately.
func TestStart_PausedUntilObserved(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(9)}})
		s.failWith(func(string) error { return errDown })
		a := s.newOperator(Options{Identity: "a"})
		s.expect(a, true, "peering is not started")
		s.equal("Readyz before the leader election", a.Readyz(nil), nil)

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error)
		go func() { done <- a.Start(ctx) }()
		s.wait(time.Minute)
		s.expect(a, true, "connection refused")
		if a.Readyz(nil) == nil {
			s.Error("Readyz returned no error, want an error during the pause")
		}
		hurry, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := a.WaitForPeers(hurry); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("WaitForPeers returned %v, want the deadline error", err)
		}
		s.failWith(nil)
		s.equal("error of WaitForPeers", a.WaitForPeers(ctx), nil)
		s.expect(a, true, `"b" (priority 9)`)
		s.equal("transitions", len(a.transitions), 0)
		cancel()
		s.equal("error of Start", <-done, nil)
		if err := a.Start(ctx); err == nil || !strings.Contains(err.Error(), "already started") {
			s.Errorf("error of the second Start = %v, want an error", err)
		}
	})
}

// An operator is not ready before it has observed its peers.
func TestReadyz_BeforeObservation(t *testing.T) {
	simulate(t, func(s *simulation) {
		a := s.newOperator(Options{})
		s.stopResponding()
		ctx, cancel := context.WithCancel(context.Background())
		go func() { a.done <- a.Start(ctx) }()
		s.wait(time.Minute)
		s.expect(a, true, "not observed yet")
		if a.Readyz(nil) == nil {
			s.Error("Readyz returned no error, want an error before the observation")
		}
		cancel()
		s.equal("error of Start", <-a.done, nil)
	})
}

// PEER-41: without Mandatory, an operator works without the kind or the object, and discovers the kind later.
func TestOptionalObject(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.kinds = map[string]bool{}
		a := s.start(Options{Identity: "a"})
		s.expect(a, false, "is not mandatory")
		s.wait(time.Hour)
		s.equal("writes", len(s.takePatches()), 0)
		if s.discoveryRequests > 2*125 {
			s.Errorf("got %d discovery requests, want at most 250", s.discoveryRequests)
		}
		// A failed discovery has no effect after the first discovery.
		s.failWith(func(string) error { return errDown })
		s.wait(time.Hour)
		s.expect(a, false, "is not mandatory")
		s.failWith(nil)
		s.mu.Lock()
		s.kinds[clusterPeerings] = true
		s.mu.Unlock()
		s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(9)}})
		s.wait(discoveryInterval)
		s.expect(a, true, `"b"`)
		s.equal("metric", gauge(metrics.Paused, "default", ""), 1)
	})
}

// PEER-42, PEER-33: with Mandatory, an operator waits for the kind and the object and reports the missing manifest.
func TestMandatoryObject(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.kinds = map[string]bool{}
		a := s.start(Options{Identity: "a", Name: "ours", Mandatory: true})
		key := clusterPeerings + "//ours"
		missing := func(part string) {
			s.Helper()
			s.expect(a, true, part)
			if err := a.Readyz(nil); err == nil || !strings.Contains(err.Error(), part) {
				s.Errorf("Readyz = %v, want an error about %s", err, part)
			}
		}
		s.wait(time.Hour)
		missing("install the CustomResourceDefinition clusterkopfpeerings.kopf.dev")
		s.mu.Lock()
		s.kinds[clusterPeerings] = true
		s.mu.Unlock()
		s.wait(mandatoryDiscoveryInterval)
		missing("{apiVersion: kopf.dev/v1, kind: ClusterKopfPeering, metadata: {name: ours}}")
		s.create(key, nil)
		s.wait(0)
		s.expect(a, false, "")
		s.equal("ready", a.Readyz(nil), nil)
		s.delete(key)
		s.wait(0)
		missing("create it")
		s.mu.Lock()
		delete(s.kinds, clusterPeerings)
		s.mu.Unlock()
		s.endWatches()
		s.wait(time.Minute)
		missing("install the CustomResourceDefinition")
	})
}

// PEER-42: the object is mandatory in each namespace.
func TestMandatoryObject_Namespaces(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(namespacedPeerings+"/one/default", nil)
		a := s.start(Options{Namespaces: []string{"one", "two"}, Mandatory: true})
		if paused, why := a.Paused("one"); paused {
			s.Errorf("namespace one is paused, want active: %s", why)
		}
		paused, why := a.Paused("two")
		if want := "{apiVersion: kopf.dev/v1, kind: KopfPeering, metadata: {name: default, namespace: two}}"; !paused || !strings.Contains(why, want) {
			s.Errorf("namespace two: paused = %t, %s, want the missing manifest", paused, why)
		}
		if err := a.Readyz(nil); err == nil || strings.Contains(err.Error(), "namespace one") || !strings.Contains(err.Error(), "namespace two") {
			s.Errorf("Readyz = %v, want an error about namespace two only", err)
		}
	})
}

// Without read or write permission, the operator pauses, is not ready, and reports the RBAC rule.
func TestForbidden(t *testing.T) {
	for _, verb := range []string{"patch", "list", "watch"} {
		simulate(t, func(s *simulation) {
			s.create(defaultKey, nil)
			s.failWith(func(v string) error {
				if v == verb {
					return forbidden(v)
				}
				return nil
			})
			a := s.start(Options{Identity: "a"})
			s.wait(time.Minute)
			want := "add an RBAC rule with apiGroups: [kopf.dev], resources: [clusterkopfpeerings], verbs: [list, watch, patch]"
			s.expect(a, true, want)
			if err := a.Readyz(nil); err == nil || !strings.Contains(err.Error(), want) {
				s.Errorf("Readyz = %v, want the missing rule", err)
			}
			s.equal("log lines", a.logged("Paused because peering is failing"), 1)
			s.failWith(nil)
			s.wait(11 * time.Second)
			s.expect(a, false, "")
		})
	}
}

// Without an object, the operator needs no permission.
func TestForbidden_WithoutObject(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.failWith(func(verb string) error {
			if verb == "patch" {
				return forbidden(verb)
			}
			return nil
		})
		a := s.start(Options{Identity: "a"})
		s.wait(time.Hour)
		s.expect(a, false, "is not mandatory")
		s.equal("ready", a.Readyz(nil), nil)
		s.create(defaultKey, nil)
		s.wait(10 * time.Second)
		s.expect(a, true, "add an RBAC rule")
	})
}

// If the schema drops unknown fields, the operator reports this and pauses.
func TestSchema_DropsStatus(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		s.dropsUnknownFields = true
		a := s.start(Options{Identity: "a"})
		s.wait(time.Minute)
		s.expect(a, true, "x-kubernetes-preserve-unknown-fields")
		if n := len(s.takePatches()); n > 20 {
			s.Errorf("got %d writes per minute, want at most 20", n)
		}
		s.mu.Lock()
		s.dropsUnknownFields = false
		s.mu.Unlock()
		s.wait(11 * time.Second)
		s.expect(a, false, "")
	})
}

// B-52, PEER-52: the operator reports each transition once in the log, metrics, Events and readiness.
func TestPause_IsReported(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.equal("events at the start", len(a.takeEvents()), 0)
		s.putRecord(defaultKey, "b", rawRecord(Record{Priority: 1, Lifetime: time.Hour, LastSeen: time.Now(), Message: "upgrading"}))
		s.wait(time.Minute)
		s.equal("events", a.takeEvents(), `[Normal Paused a: "b" (priority 1: upgrading) has precedence over this operator's priority 0]`)
		s.equal("description", a.Describe(), `paused: "b" (priority 1: upgrading) has precedence over this operator's priority 0`)
		s.equal("ready", a.Readyz(nil), nil)
		s.equal("metrics", []float64{gauge(metrics.Paused, "default", ""), gauge(metrics.Peers, "kopf.dev", "default", "")}, "[1 1]")
		s.putRecord(defaultKey, "c", kopfRecord(2, time.Hour))
		s.wait(time.Minute)
		s.equal("number of events for another peer", len(a.takeEvents()), 0)
		s.equal("log lines", a.logged("Still paused"), 1)
		s.putRecord(defaultKey, "b", nil)
		s.putRecord(defaultKey, "c", nil)
		s.wait(time.Minute)
		s.equal("events", a.takeEvents(), `[Normal Resumed a: none of 0 live peers has precedence]`)
		s.putRecord(defaultKey, "d", kopfRecord(0, time.Hour))
		s.wait(time.Minute)
		if events := a.takeEvents(); len(events) != 1 || !strings.HasPrefix(events[0], `Warning Paused a: "d"`) {
			s.Errorf("got the events %v, want one warning about a pause for d", events)
		}
		s.equal("log lines", []int{a.logged(`"Paused"`), a.logged(`"Resumed"`)}, "[2 1]")
	})
}

// B-52: the operator reports the end of a pause while one group is not observed yet, on the object of the other group.
func TestPause_BeforeAllGroupsAreObserved(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.discoveryDelay = map[string]time.Duration{v1.LegacyGroup: time.Minute}
		s.create(defaultKey, nil)
		s.putRecord(defaultKey, "x", kopfRecord(1, time.Hour))
		a := s.start(Options{Identity: "a"})
		s.expect(a, true, `"x" (priority 1)`)
		s.equal("events", len(a.takeEvents()), 1)
		s.putRecord(defaultKey, "x", nil)
		s.wait(time.Second)
		s.expect(a, true, "not observed yet")
		s.equal("events", a.takeEvents(), "[]")
		s.wait(time.Minute)
		s.expect(a, false, "live peers has precedence")
		s.equal("events", a.takeEvents(), `[Normal Resumed a: none of 0 live peers has precedence]`)
		s.equal("log lines", []int{a.logged(`"Paused"`), a.logged(`"Resumed"`), a.logged(`"Not paused"`)}, "[1 1 0]")
	})
}

// The operator records a pause at startup as an Event. It truncates a long message between runes.
func TestPause_LongMessage(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		s.putRecord(defaultKey, strings.Repeat("ж", 3000), kopfRecord(1, time.Hour))
		a := s.start(Options{Identity: "a"})
		events := a.takeEvents()
		if len(events) != 1 || len(events[0]) > 1024 || strings.Contains(events[0], "\uFFFD") {
			s.Errorf("got the events %.2000v, want one event of at most 1024 valid bytes", events)
		}
	})
}
