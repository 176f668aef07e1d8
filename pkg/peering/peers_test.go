package peering

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// PEER-32, PEER-31: a higher one pauses, and releases by its goodbye, or by its death.
func TestAHigherPeer(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.expect(a, false, "no peer has precedence, of 0")
		dev := s.start(Options{Identity: "dev", Priority: DevPriority})
		s.expect(a, true, `"dev" (priority 666) has precedence over our priority 0`)
		s.expect(dev, false, "of 1 that are alive")
		s.wait(10 * time.Minute)
		s.expect(a, true, "dev")
		dev.stop()
		synctest.Wait()
		s.expect(a, false, "")

		s.put(defaultKey, "killed", python(1, time.Minute))
		s.wait(time.Minute - time.Nanosecond)
		s.expect(a, true, "killed")
		s.wait(time.Nanosecond)
		s.expect(a, false, "")
		s.equal("records", s.identities(defaultKey), "[a]")
		s.equal("transitions", len(a.transitions), 5)
	})
}

// PEER-34: at the end of the first of those that block, we write, and look; only then.
func TestWakingUp(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a", Lifetime: time.Hour})
		s.put(defaultKey, "long", python(1, 30*time.Minute))
		s.put(defaultKey, "short", python(1, 10*time.Minute))
		s.put(defaultKey, "low", python(-1, time.Minute))
		s.log()
		s.wait(10*time.Minute - time.Nanosecond)
		s.equal("writes", len(s.log()), 0)
		s.wait(time.Nanosecond)
		s.expect(a, true, "long")
		s.equal("records", s.identities(defaultKey), "[a long]")
		patches := s.log()
		s.equal("writes", len(patches), 2)
		if !strings.Contains(patches[0].body, `"a":{"priority"`) || !strings.Contains(patches[1].body, `{"low":null,"short":null}`) {
			s.Errorf("%v", patches)
		}
		s.wait(20 * time.Minute)
		s.expect(a, false, "")
	})
}

// PEER-35, PEER-32: equals pause, all of them, for as long as they are there; one that is left alone resumes.
func TestEquals(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		b := s.start(Options{Identity: "b"})
		s.wait(3 * time.Hour)
		for _, one := range []*actor{a, b} {
			s.expect(one, true, "the same priority as we have, so all of us pause: give one of us another priority")
			s.equal("ready", one.Readyz(nil), nil)
		}
		s.equal("told", a.logged("Paused"), 1) // and not in each evaluation
		b.stop()
		synctest.Wait()
		s.expect(a, false, "")
	})
}

// PEER-36, SE-39: who comes back after a crash waits for the end of its former record, unless it has kept its identity.
func TestAfterACrash(t *testing.T) {
	for _, identity := range []string{"a", "b"} {
		play(t, func(s *scene) {
			s.create(defaultKey, nil)
			s.put(defaultKey, "a", python(0, time.Minute))
			s.wait(20 * time.Second)
			b := s.start(Options{Identity: identity})
			s.expect(b, identity == "b", "")
			s.wait(time.Minute)
			s.expect(b, false, "")
			s.equal("records", s.identities(defaultKey), "["+identity+"]")
		})
	}
}

// PEER-31: two see the dead, one removes them; garbage and the living stay.
func TestCleaning(t *testing.T) {
	play(t, func(s *scene) {
		old := raw(Record{Priority: 9, Lifetime: time.Minute, LastSeen: time.Now().Add(-time.Hour)})
		s.create(defaultKey, nil)
		s.put(defaultKey, "junk", "text")
		s.put(defaultKey, "worse", map[string]any{"priority": []any{}, "lifetime": -1})
		a := s.start(Options{Identity: "a", Priority: 1})
		b := s.start(Options{Identity: "b"})
		s.log()
		s.put(defaultKey, "dead", old)
		s.wait(0)
		s.equal("records", s.identities(defaultKey), "[a b junk worse]")
		removals := 0
		for _, p := range s.log() {
			if strings.Contains(p.body, `"dead":null`) && p.code == 200 {
				removals++
			}
		}
		s.equal("removals", removals, 1)
		s.expect(a, false, "")
		s.expect(b, true, `"a"`)
		s.wait(time.Hour)
		s.equal("warnings", a.logged("A record is not understood"), 2)
		s.equal("records", s.identities(defaultKey), "[a b junk worse]")
	})
}

// A record that is refreshed just when we are about to remove it stays.
func TestCleaningIsForTheDeadOnly(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.put(defaultKey, "late", python(1, time.Minute))
		s.wait(0)
		s.mu.Lock()
		s.before = func(body string) { // between the look and the removal
			if strings.Contains(body, `"late":null`) {
				s.refresh(defaultKey, "late", map[string]any{"priority": int64(1), "x": "alive"})
			}
		}
		s.mu.Unlock()
		s.wait(time.Minute)
		s.equal("records", s.identities(defaultKey), "[a late]")
		s.expect(a, true, "late")
	})
}

// Dead records that may not be removed are no reason to try all the time.
func TestCleaningThatFails(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.log()
		s.breakWith(forbidden)
		s.mu.Lock()
		s.refresh(defaultKey, "dead", map[string]any{"lifetime": int64(0)})
		s.mu.Unlock()
		s.wait(0)
		s.equal("tries", len(s.log()), 1)
		for i := range 100 {
			s.mu.Lock()
			s.refresh(defaultKey, "living", map[string]any{"priority": int64(-1), "x": int64(i)})
			s.mu.Unlock()
			s.wait(100 * time.Millisecond)
		}
		if n := len(s.log()); n > 2 {
			s.Errorf("%d requests in ten seconds", n)
		}
		s.expect(a, false, "")
	})
}

// An object that was replaced: the end of the old one, when it is told late, is not that of the new one.
func TestAReplacedObject(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a", Mandatory: true})
		s.mu.Lock()
		watchers := s.watchers
		s.watchers = nil // who is told later
		old := s.objects[defaultKey].GetUID()
		s.mu.Unlock()
		s.create(defaultKey, nil)
		s.wait(time.Minute) // a sign of life has found the new one
		s.expect(a, false, "")
		for _, w := range watchers {
			w.looks <- look{gone: old}
		}
		s.wait(0)
		s.expect(a, false, "")
		s.equal("transitions", len(a.transitions), 1)
	})
}

// When it has to be asked again what is served, the members in other namespaces do not say goodbye.
func TestAskingAgainIsNoGoodbye(t *testing.T) {
	play(t, func(s *scene) {
		one, two := namespacedPeerings+"/one/default", namespacedPeerings+"/two/default"
		s.create(one, nil)
		s.create(two, nil)
		a := s.start(Options{Identity: "a", Namespaces: []string{"one", "two"}})
		s.log()
		s.breakWith(func(verb string) error {
			if verb == "list" {
				return errUnserved
			}
			return nil
		})
		s.mu.Lock()
		for _, w := range s.watchers {
			if w.key == one {
				close(w.looks)
			}
		}
		s.watchers = nil
		s.mu.Unlock()
		s.wait(1500 * time.Millisecond)
		s.breakWith(nil)
		s.wait(time.Minute)
		for _, p := range s.log() {
			if strings.Contains(p.body, "null") {
				s.Errorf("%s", p.body)
			}
		}
		s.equal("transitions", len(a.transitions), 2) // the two beginnings
	})
}

// PEER-30, in a chain of three: the highest works, and each end has its effect.
func TestAChain(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		var actors []*actor
		for i := range 3 {
			actors = append(actors, s.start(Options{Identity: fmt.Sprint("p", i), Priority: i}))
		}
		pausedOnes := func() (all []bool) {
			for _, a := range actors {
				paused, _ := a.Paused("")
				all = append(all, paused)
			}
			return all
		}
		s.wait(5 * time.Minute)
		s.equal("paused", pausedOnes(), []bool{true, true, false})
		s.equal("peers", gauge(metrics.Peers, "kopf.dev", "default", ""), 2)
		actors[2].stop()
		s.wait(0)
		s.equal("paused", pausedOnes()[:2], []bool{true, false})
		actors[1].stop()
		s.wait(0)
		s.equal("paused", pausedOnes()[:1], []bool{false})
	})
}

// B-53: electing operators go on with one of them, who stays it, and steps back for one of kopf's.
func TestElecting(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		first := s.start(Options{Identity: "z", Tie: Elect})
		s.wait(time.Minute)
		second := s.start(Options{Identity: "a", Tie: Elect})
		s.wait(time.Hour)
		s.expect(first, false, "")
		s.expect(second, true, "we are not the one to work")
		s.put(defaultKey, "python", python(0, time.Minute))
		s.wait(0)
		s.expect(first, true, "the same priority")
		s.expect(second, true, "the same priority")
		s.put(defaultKey, "python", nil)
		s.wait(0)
		s.expect(first, false, "")
		first.stop()
		s.wait(0)
		s.expect(second, false, "")
	})
}

// B-51, SE-38: operators of kopf whose clocks are wrong, alive or killed.
func TestSkewedPeers(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, -2 * time.Minute, 0, 2 * time.Minute, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			play(t, func(s *scene) {
				s.create(defaultKey, nil)
				sign := func() {
					s.put(defaultKey, "python", raw(Record{Priority: 1, Lifetime: time.Minute, LastSeen: time.Now().Add(skew)}))
				}
				sign()
				a := s.start(Options{Identity: "a"})
				for range 20 {
					s.expect(a, true, "python")
					s.wait(50 * time.Second)
					sign()
				}
				s.wait(time.Minute - time.Nanosecond)
				s.expect(a, true, "python")
				s.wait(time.Nanosecond)
				s.expect(a, false, "")
				s.equal("paused once", len(a.transitions), 1)
				s.equal("a clock that is ahead is told", a.logged("clock") > 0, skew > 0)
			})
		})
	}
}

// PEER-25, PEER-44, PEER-33: a peering object in each namespace, and each is paused alone.
func TestNamespaces(t *testing.T) {
	play(t, func(s *scene) {
		one, two := namespacedPeerings+"/one/default", namespacedPeerings+"/two/default"
		s.create(one, nil)
		s.create(two, nil)
		s.create(defaultKey, map[string]any{"cluster": map[string]any{"priority": int64(100)}})
		a := s.start(Options{Identity: "a", Namespaces: []string{"one", "two"}})
		if n := len(s.watchers); n != 2 {
			s.Errorf("%d watches", n)
		}
		s.put(two, "b", python(1, time.Minute))
		s.wait(0)
		got := map[string]bool{}
		for _, namespace := range []string{"one", "two", "", "other"} {
			got[namespace], _ = a.Paused(namespace)
		}
		s.equal("paused", got, map[string]bool{"one": false, "two": true, "": true, "other": true})
		s.equal("last transition", a.transitions[len(a.transitions)-1].Namespace, "two")
		s.equal("metric", []float64{gauge(metrics.Paused, "default", "one"), gauge(metrics.Paused, "default", "two")}, "[0 1]")
		if d := a.Describe(); !strings.HasPrefix(d, "namespace one: works: ") || !strings.Contains(d, "\nnamespace two: paused: ") {
			s.Error(d)
		}
		s.equal("records", s.identities(one)+s.identities(two)+s.identities(defaultKey), "[a][a b][cluster]")
		a.stop()
		s.equal("records", s.identities(one)+s.identities(two), "[][b]")
	})
}

// PEER-01: where both groups are served, both are used, and one that has precedence is enough.
func TestBothGroups(t *testing.T) {
	play(t, func(s *scene) {
		s.kinds[legacyPeerings] = true
		legacy := legacyPeerings + "//default"
		s.create(defaultKey, nil)
		s.create(legacy, nil)
		a := s.start(Options{Identity: "a", Mandatory: true})
		s.equal("records", s.identities(defaultKey)+s.identities(legacy), "[a][a]")
		s.expect(a, false, "")
		s.put(legacy, "old", python(1, time.Minute))
		s.wait(0)
		s.expect(a, true, "old")
		s.put(defaultKey, "new", python(0, time.Hour))
		s.wait(0)
		s.put(legacy, "old", nil)
		s.wait(0)
		s.expect(a, true, "new")
		s.put(defaultKey, "new", nil)
		s.wait(0)
		s.expect(a, false, "")
		// One of the objects is enough for those that have to have one.
		s.delete(defaultKey)
		s.wait(0)
		s.expect(a, false, "")
	})
}

// PEER-03: other names are not our business.
func TestOtherNames(t *testing.T) {
	play(t, func(s *scene) {
		other := clusterPeerings + "//other"
		s.create(defaultKey, map[string]any{"x": map[string]any{"priority": int64(9)}})
		s.create(other, nil)
		a := s.start(Options{Identity: "a", Name: "other"})
		s.wait(time.Minute)
		s.expect(a, false, "of 0")
		s.equal("records", s.identities(other), "[a]")
		s.equal("records", s.identities(defaultKey), "[x]")
		s.equal("default", (&scene{T: s.T, fakeServer: s.fakeServer}).prepare(Options{}).options.Name, "default")
	})
}

// Who changes often is told once for each change, in order.
func TestTransitionsAreInOrder(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		var want []bool
		for i := range 50 {
			changed := a.Changed()
			if i%2 == 0 {
				s.put(defaultKey, "b", python(1, time.Minute))
			} else {
				s.put(defaultKey, "b", nil)
			}
			s.wait(0)
			want = append(want, i%2 == 0)
			select {
			case <-changed:
			default:
				s.Fatal("nobody was told of the change")
			}
		}
		var got []bool
		for _, tr := range a.transitions[1:] {
			got = append(got, tr.Paused)
		}
		if !slices.Equal(got, want) {
			s.Errorf("%v", got)
		}
	})
}
