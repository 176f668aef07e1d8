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

// PEER-40: no task, no request, no pause.
func TestStandalone(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(9)}})
		a := s.start(Options{Standalone: true, Mandatory: true, Priority: -5})
		s.wait(time.Hour)
		s.expect(a, false, "standalone")
		s.equal("requests", len(s.log())+len(s.watchers)+s.asked, 0)
		s.equal("looked", a.Looked(s.Context()), nil)
		s.equal("ready", a.Readyz(nil), nil)
		a.stop()
		s.expect(a, false, "standalone")
	})
}

// B-50, PEER-41, SE-37: nothing before the first look, whatever the mode; kopf begins at once.
func TestFirstLookThenAct(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(9)}})
		s.breakWith(func(string) error { return errDown })
		a := s.prepare(Options{Identity: "a"})
		s.expect(a, true, "not begun")
		s.equal("one that waits to become the leader is ready", a.Readyz(nil), nil)

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error)
		go func() { done <- a.Start(ctx) }()
		s.wait(time.Minute)
		s.expect(a, true, "connection refused")
		if a.Readyz(nil) == nil {
			s.Error("it is said to be ready")
		}
		hurry, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := a.Looked(hurry); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("looked: %v", err)
		}
		s.breakWith(nil)
		s.equal("looked", a.Looked(ctx), nil)
		s.expect(a, true, `"b" (priority 9)`)
		s.equal("it never worked", len(a.transitions), 0)
		cancel()
		s.equal("the end", <-done, nil)
		if err := a.Start(ctx); err == nil || !strings.Contains(err.Error(), "started before") {
			s.Errorf("started again: %v", err)
		}
	})
}

// An operator that has not had its first look is not ready.
func TestNotReadyBeforeTheFirstLook(t *testing.T) {
	play(t, func(s *scene) {
		a := s.prepare(Options{})
		s.setMute()
		ctx, cancel := context.WithCancel(context.Background())
		go func() { a.done <- a.Start(ctx) }()
		s.wait(time.Minute)
		s.expect(a, true, "not been looked at yet")
		if a.Readyz(nil) == nil {
			s.Error("it is said to be ready")
		}
		cancel()
		s.equal("the end", <-a.done, nil)
	})
}

// PEER-41: automatic: works without the kind, and without the object; and notices when the kind is installed.
func TestAutomatic(t *testing.T) {
	play(t, func(s *scene) {
		s.kinds = map[string]bool{}
		a := s.start(Options{Identity: "a"})
		s.expect(a, false, "none is needed")
		s.wait(time.Hour)
		s.equal("writes", len(s.log()), 0)
		if s.asked > 2*125 {
			s.Errorf("it has asked %d times", s.asked)
		}
		// Later on, it does no harm if nobody can be asked.
		s.breakWith(func(string) error { return errDown })
		s.wait(time.Hour)
		s.expect(a, false, "none is needed")
		s.breakWith(nil)
		s.mu.Lock()
		s.kinds[clusterPeerings] = true
		s.mu.Unlock()
		s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(9)}})
		s.wait(askAgain)
		s.expect(a, true, `"b"`)
		s.equal("metric", gauge(metrics.Paused, "default", ""), 1)
	})
}

// PEER-42, PEER-33: mandatory: waits for the kind, then for the object, says what to create, and does not exit.
func TestMandatory(t *testing.T) {
	play(t, func(s *scene) {
		s.kinds = map[string]bool{}
		a := s.start(Options{Identity: "a", Name: "ours", Mandatory: true})
		key := clusterPeerings + "//ours"
		missing := func(part string) {
			s.Helper()
			s.expect(a, true, part)
			if err := a.Readyz(nil); err == nil || !strings.Contains(err.Error(), part) {
				s.Errorf("ready: %v", err)
			}
		}
		s.wait(time.Hour)
		missing("install the CustomResourceDefinition clusterkopfpeerings.kopf.dev")
		s.mu.Lock()
		s.kinds[clusterPeerings] = true
		s.mu.Unlock()
		s.wait(askAgainSoon)
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
		s.cut()
		s.wait(time.Minute)
		missing("install the CustomResourceDefinition")
	})
}

// PEER-42: in each namespace.
func TestMandatoryInNamespaces(t *testing.T) {
	play(t, func(s *scene) {
		s.create(namespacedPeerings+"/one/default", nil)
		a := s.start(Options{Namespaces: []string{"one", "two"}, Mandatory: true})
		if paused, why := a.Paused("one"); paused {
			s.Errorf("one: %s", why)
		}
		paused, why := a.Paused("two")
		if want := "{apiVersion: kopf.dev/v1, kind: KopfPeering, metadata: {name: default, namespace: two}}"; !paused || !strings.Contains(why, want) {
			s.Errorf("two: %t, %s", paused, why)
		}
		if err := a.Readyz(nil); err == nil || strings.Contains(err.Error(), "namespace one") || !strings.Contains(err.Error(), "namespace two") {
			s.Errorf("ready: %v", err)
		}
	})
}

// No permission to write, or to look: paused, not ready, and the rule is told.
func TestForbidden(t *testing.T) {
	for _, verb := range []string{"patch", "list", "watch"} {
		play(t, func(s *scene) {
			s.create(defaultKey, nil)
			s.breakWith(func(v string) error {
				if v == verb {
					return forbidden(v)
				}
				return nil
			})
			a := s.start(Options{Identity: "a"})
			s.wait(time.Minute)
			want := "grant it by a rule with apiGroups: [kopf.dev], resources: [clusterkopfpeerings], verbs: [list, watch, patch]"
			s.expect(a, true, want)
			if err := a.Readyz(nil); err == nil || !strings.Contains(err.Error(), want) {
				s.Errorf("ready: %v", err)
			}
			s.equal("told once", a.logged("Paused, as peering fails"), 1)
			s.breakWith(nil)
			s.wait(11 * time.Second)
			s.expect(a, false, "")
		})
	}
}

// Without an object there is nothing to write to, so no permission is needed.
func TestForbiddenWithoutAnObject(t *testing.T) {
	play(t, func(s *scene) {
		s.breakWith(func(verb string) error {
			if verb == "patch" {
				return forbidden(verb)
			}
			return nil
		})
		a := s.start(Options{Identity: "a"})
		s.wait(time.Hour)
		s.expect(a, false, "none is needed")
		s.equal("ready", a.Readyz(nil), nil)
		s.create(defaultKey, nil)
		s.wait(10 * time.Second)
		s.expect(a, true, "grant it")
	})
}

// A schema that drops what it does not know makes peering impossible: that is told, and not taken for being alone.
func TestAStatusThatIsDropped(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		s.drops = true
		a := s.start(Options{Identity: "a"})
		s.wait(time.Minute)
		s.expect(a, true, "x-kubernetes-preserve-unknown-fields")
		if n := len(s.log()); n > 20 {
			s.Errorf("%d writes a minute", n)
		}
		s.mu.Lock()
		s.drops = false
		s.mu.Unlock()
		s.wait(11 * time.Second)
		s.expect(a, false, "")
	})
}

// B-52, PEER-52: a transition is in the log, in the metrics, on the peering object and in the readiness text, once.
func TestPausesAreSeen(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.equal("events at the start", len(a.posted()), 0)
		s.put(defaultKey, "b", raw(Record{Priority: 1, Lifetime: time.Hour, LastSeen: time.Now(), Message: "upgrading"}))
		s.wait(time.Minute)
		s.equal("events", a.posted(), `[Normal Paused a: "b" (priority 1: upgrading) has precedence over our priority 0]`)
		s.equal("described", a.Describe(), `paused: "b" (priority 1: upgrading) has precedence over our priority 0`)
		s.equal("ready", a.Readyz(nil), nil)
		s.equal("metrics", []float64{gauge(metrics.Paused, "default", ""), gauge(metrics.Peers, "kopf.dev", "default", "")}, "[1 1]")
		s.put(defaultKey, "c", python(2, time.Hour))
		s.wait(time.Minute)
		s.equal("no event for a further peer", len(a.posted()), 0)
		s.equal("but a line", a.logged("Still paused"), 1)
		s.put(defaultKey, "b", nil)
		s.put(defaultKey, "c", nil)
		s.wait(time.Minute)
		s.equal("events", a.posted(), `[Normal Resumed a: no peer has precedence, of 0 that are alive]`)
		s.put(defaultKey, "d", python(0, time.Hour))
		s.wait(time.Minute)
		if events := a.posted(); len(events) != 1 || !strings.HasPrefix(events[0], `Warning Paused a: "d"`) {
			s.Errorf("%v", events)
		}
		s.equal("lines", []int{a.logged(`"Paused"`), a.logged(`"Resumed"`)}, "[2 1]")
	})
}

// B-52: a pause that ends while one of the groups has not been looked at yet has its end told, too; on the object of the other group.
func TestPausesBeforeTheFirstLookEverywhere(t *testing.T) {
	play(t, func(s *scene) {
		s.late = map[string]time.Duration{v1.LegacyGroup: time.Minute}
		s.create(defaultKey, nil)
		s.put(defaultKey, "x", python(1, time.Hour))
		a := s.start(Options{Identity: "a"})
		s.expect(a, true, `"x" (priority 1)`)
		s.equal("events", len(a.posted()), 1)
		s.put(defaultKey, "x", nil)
		s.wait(time.Second)
		s.expect(a, true, "not been looked at")
		s.equal("events", a.posted(), "[]")
		s.wait(time.Minute)
		s.expect(a, false, "no peer has precedence")
		s.equal("events", a.posted(), `[Normal Resumed a: no peer has precedence, of 0 that are alive]`)
		s.equal("lines", []int{a.logged(`"Paused"`), a.logged(`"Resumed"`), a.logged(`"Not paused"`)}, "[1 1 0]")
	})
}

// A pause from the beginning has its Event, too; a long reason is cut between runes.
func TestLongReasons(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		s.put(defaultKey, strings.Repeat("ж", 3000), python(1, time.Hour))
		a := s.start(Options{Identity: "a"})
		events := a.posted()
		if len(events) != 1 || len(events[0]) > 1024 || strings.Contains(events[0], "\uFFFD") {
			s.Errorf("%.2000v", events)
		}
	})
}
