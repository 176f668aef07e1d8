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

// PEER-32, PEER-31: a peer with a higher priority pauses the operator until its record is removed or expires.
func TestPause_HigherPriority(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.expect(a, false, "none of 0 live peers")
		dev := s.start(Options{Identity: "dev", Priority: DevPriority})
		s.expect(a, true, `"dev" (priority 666) has precedence over this operator's priority 0`)
		s.expect(dev, false, "none of 1 live peers")
		s.wait(10 * time.Minute)
		s.expect(a, true, "dev")
		dev.stop()
		synctest.Wait()
		s.expect(a, false, "")

		s.putRecord(defaultKey, "killed", kopfRecord(1, time.Minute))
		s.wait(time.Minute - time.Nanosecond)
		s.expect(a, true, "killed")
		s.wait(time.Nanosecond)
		s.expect(a, false, "")
		s.equal("records", s.identities(defaultKey), "[a]")
		s.equal("transitions", len(a.transitions), 5)
	})
}

// PEER-34: at the deadline of the first blocking peer, the operator writes its record and evaluates the response.
func TestPause_RecheckAtDeadline(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a", Lifetime: time.Hour})
		s.putRecord(defaultKey, "long", kopfRecord(1, 30*time.Minute))
		s.putRecord(defaultKey, "short", kopfRecord(1, 10*time.Minute))
		s.putRecord(defaultKey, "low", kopfRecord(-1, time.Minute))
		s.takePatches()
		s.wait(10*time.Minute - time.Nanosecond)
		s.equal("writes", len(s.takePatches()), 0)
		s.wait(time.Nanosecond)
		s.expect(a, true, "long")
		s.equal("records", s.identities(defaultKey), "[a long]")
		patches := s.takePatches()
		s.equal("writes", len(patches), 2)
		if !strings.Contains(patches[0].body, `"a":{"priority"`) || !strings.Contains(patches[1].body, `{"low":null,"short":null}`) {
			s.Errorf("got the patches %v, want a renewal and the removal of two records", patches)
		}
		s.wait(20 * time.Minute)
		s.expect(a, false, "")
	})
}

// PEER-35, PEER-32: all operators of equal priority pause. The last remaining operator resumes.
func TestPause_EqualPriorities(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		b := s.start(Options{Identity: "b"})
		s.wait(3 * time.Hour)
		for _, one := range []*operator{a, b} {
			s.expect(one, true, "the same priority as this operator, so all of them pause: change the priority of one")
			s.equal("ready", one.Readyz(nil), nil)
		}
		s.equal("log lines", a.logged("Paused"), 1) // the operator does not log each evaluation
		b.stop()
		synctest.Wait()
		s.expect(a, false, "")
	})
}

// PEER-36, SE-39: after a crash, an operator waits until its old record expires, unless its identity is the same.
func TestStart_AfterCrash(t *testing.T) {
	for _, identity := range []string{"a", "b"} {
		simulate(t, func(s *simulation) {
			s.create(defaultKey, nil)
			s.putRecord(defaultKey, "a", kopfRecord(0, time.Minute))
			s.wait(20 * time.Second)
			b := s.start(Options{Identity: identity})
			s.expect(b, identity == "b", "")
			s.wait(time.Minute)
			s.expect(b, false, "")
			s.equal("records", s.identities(defaultKey), "["+identity+"]")
		})
	}
}

// PEER-31: one of two operators removes a dead record. Unreadable and live records are kept.
func TestRemoveDeadPeers(t *testing.T) {
	simulate(t, func(s *simulation) {
		old := rawRecord(Record{Priority: 9, Lifetime: time.Minute, LastSeen: time.Now().Add(-time.Hour)})
		s.create(defaultKey, nil)
		s.putRecord(defaultKey, "junk", "text")
		s.putRecord(defaultKey, "worse", map[string]any{"priority": []any{}, "lifetime": -1})
		a := s.start(Options{Identity: "a", Priority: 1})
		b := s.start(Options{Identity: "b"})
		s.takePatches()
		s.putRecord(defaultKey, "dead", old)
		s.wait(0)
		s.equal("records", s.identities(defaultKey), "[a b junk worse]")
		removals := 0
		for _, p := range s.takePatches() {
			if strings.Contains(p.body, `"dead":null`) && p.code == 200 {
				removals++
			}
		}
		s.equal("removals", removals, 1)
		s.expect(a, false, "")
		s.expect(b, true, `"a"`)
		s.wait(time.Hour)
		s.equal("warnings", a.logged("Ignoring an unreadable record"), 2)
		s.equal("records", s.identities(defaultKey), "[a b junk worse]")
	})
}

// A record that is renewed immediately before its removal is kept.
func TestRemoveDeadPeers_RenewedRecord(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.putRecord(defaultKey, "late", kopfRecord(1, time.Minute))
		s.wait(0)
		s.mu.Lock()
		s.beforePatch = func(body string) { // this runs between the observation and the removal
			if strings.Contains(body, `"late":null`) {
				s.putRecordLocked(defaultKey, "late", map[string]any{"priority": int64(1), "x": "alive"})
			}
		}
		s.mu.Unlock()
		s.wait(time.Minute)
		s.equal("records", s.identities(defaultKey), "[a late]")
		s.expect(a, true, "late")
	})
}

// The operator does not repeat a failed removal of dead records continuously.
func TestRemoveDeadPeers_Failure(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.takePatches()
		s.failWith(forbidden)
		s.mu.Lock()
		s.putRecordLocked(defaultKey, "dead", map[string]any{"lifetime": int64(0)})
		s.mu.Unlock()
		s.wait(0)
		s.equal("number of attempts", len(s.takePatches()), 1)
		for i := range 100 {
			s.mu.Lock()
			s.putRecordLocked(defaultKey, "living", map[string]any{"priority": int64(-1), "x": int64(i)})
			s.mu.Unlock()
			s.wait(100 * time.Millisecond)
		}
		if n := len(s.takePatches()); n > 2 {
			s.Errorf("got %d requests in ten seconds, want at most 2", n)
		}
		s.expect(a, false, "")
	})
}

// A late deletion event of a replaced object does not affect the new object.
func TestObject_Replaced(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a", Mandatory: true})
		s.mu.Lock()
		watchers := s.watchers
		s.watchers = nil // events are delayed
		old := s.objects[defaultKey].GetUID()
		s.mu.Unlock()
		s.create(defaultKey, nil)
		s.wait(time.Minute) // a write reached the new object
		s.expect(a, false, "")
		for _, w := range watchers {
			w.events <- observedObject{deletedUID: old}
		}
		s.wait(0)
		s.expect(a, false, "")
		s.equal("transitions", len(a.transitions), 1)
	})
}

// If an operator discovers the kind again in one namespace, it keeps the records in other namespaces.
func TestDiscovery_KeepsRecords(t *testing.T) {
	simulate(t, func(s *simulation) {
		one, two := namespacedPeerings+"/one/default", namespacedPeerings+"/two/default"
		s.create(one, nil)
		s.create(two, nil)
		a := s.start(Options{Identity: "a", Namespaces: []string{"one", "two"}})
		s.takePatches()
		s.failWith(func(verb string) error {
			if verb == "list" {
				return errUnserved
			}
			return nil
		})
		s.mu.Lock()
		for _, w := range s.watchers {
			if w.key == one {
				close(w.events)
			}
		}
		s.watchers = nil
		s.mu.Unlock()
		s.wait(1500 * time.Millisecond)
		s.failWith(nil)
		s.wait(time.Minute)
		for _, p := range s.takePatches() {
			if strings.Contains(p.body, "null") {
				s.Errorf("got the patch %s, want no removal of records", p.body)
			}
		}
		s.equal("transitions", len(a.transitions), 2) // both transitions occur at startup
	})
}

// PEER-30: the operator with the highest of three priorities works. Each shutdown has an effect.
func TestPause_ThreeOperators(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		var actors []*operator
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

// B-53: candidates elect one operator, which continues to work. It pauses for a kopf operator.
func TestPause_Election(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		first := s.start(Options{Identity: "z", Tie: Elect})
		s.wait(time.Minute)
		second := s.start(Options{Identity: "a", Tie: Elect})
		s.wait(time.Hour)
		s.expect(first, false, "")
		s.expect(second, true, "won the election")
		s.putRecord(defaultKey, "python", kopfRecord(0, time.Minute))
		s.wait(0)
		s.expect(first, true, "the same priority")
		s.expect(second, true, "the same priority")
		s.putRecord(defaultKey, "python", nil)
		s.wait(0)
		s.expect(first, false, "")
		first.stop()
		s.wait(0)
		s.expect(second, false, "")
	})
}

// An operator that shares the objects works beside others with the same priority, also beside one of kopf 1.45 with a shard selector.
func TestPause_Share(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		first, second := s.start(Options{Identity: "a", Tie: Share}), s.start(Options{Identity: "b", Tie: Share})
		s.putRecord(defaultKey, "python", kopfRecord(0, time.Hour))
		s.wait(time.Minute)
		s.expect(first, false, "")
		s.expect(second, false, "")
		other := s.start(Options{Identity: "c"})
		s.wait(time.Minute)
		s.expect(first, false, "")
		s.expect(other, true, "the same priority")
		s.putRecord(defaultKey, "laptop", kopfRecord(1, time.Minute))
		s.wait(0)
		s.expect(first, true, "laptop")
		s.expect(second, true, "laptop")
		s.wait(2 * time.Minute)
		s.expect(first, false, "")
	})
}

// B-51, SE-38: operators work with running and killed kopf operators that have wrong clocks.
func TestPause_SkewedClocks(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, -2 * time.Minute, 0, 2 * time.Minute, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			simulate(t, func(s *simulation) {
				s.create(defaultKey, nil)
				sign := func() {
					s.putRecord(defaultKey, "python", rawRecord(Record{Priority: 1, Lifetime: time.Minute, LastSeen: time.Now().Add(skew)}))
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
				s.equal("the skewed clock is logged", a.logged("clock") > 0, skew > 0)
			})
		})
	}
}

// PEER-25, PEER-44, PEER-33: each namespace has its own peering object and pauses independently.
func TestNamespaces(t *testing.T) {
	simulate(t, func(s *simulation) {
		one, two := namespacedPeerings+"/one/default", namespacedPeerings+"/two/default"
		s.create(one, nil)
		s.create(two, nil)
		s.create(defaultKey, map[string]any{"cluster": map[string]any{"priority": int64(100)}})
		a := s.start(Options{Identity: "a", Namespaces: []string{"one", "two"}})
		if n := len(s.watchers); n != 2 {
			s.Errorf("got %d watches, want 2", n)
		}
		s.putRecord(two, "b", kopfRecord(1, time.Minute))
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

// PEER-01: if both groups are served, both are used. Precedence in one group is sufficient.
func TestBothGroups(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.kinds[legacyPeerings] = true
		legacy := legacyPeerings + "//default"
		s.create(defaultKey, nil)
		s.create(legacy, nil)
		a := s.start(Options{Identity: "a", Mandatory: true})
		s.equal("records", s.identities(defaultKey)+s.identities(legacy), "[a][a]")
		s.expect(a, false, "")
		s.putRecord(legacy, "old", kopfRecord(1, time.Minute))
		s.wait(0)
		s.expect(a, true, "old")
		s.putRecord(defaultKey, "new", kopfRecord(0, time.Hour))
		s.wait(0)
		s.putRecord(legacy, "old", nil)
		s.wait(0)
		s.expect(a, true, "new")
		s.putRecord(defaultKey, "new", nil)
		s.wait(0)
		s.expect(a, false, "")
		// Either object satisfies Mandatory.
		s.delete(defaultKey)
		s.wait(0)
		s.expect(a, false, "")
	})
}

// PEER-03: objects with other names are ignored.
func TestObject_OtherNames(t *testing.T) {
	simulate(t, func(s *simulation) {
		other := clusterPeerings + "//other"
		s.create(defaultKey, map[string]any{"x": map[string]any{"priority": int64(9)}})
		s.create(other, nil)
		a := s.start(Options{Identity: "a", Name: "other"})
		s.wait(time.Minute)
		s.expect(a, false, "none of 0 live peers")
		s.equal("records", s.identities(other), "[a]")
		s.equal("records", s.identities(defaultKey), "[x]")
		s.equal("default", (&simulation{T: s.T, fakeServer: s.fakeServer}).newOperator(Options{}).options.Name, "default")
	})
}

// Subscribers are called once for each transition, in order.
func TestSubscribe_Order(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		var want []bool
		for i := range 50 {
			changed := a.Changed()
			if i%2 == 0 {
				s.putRecord(defaultKey, "b", kopfRecord(1, time.Minute))
			} else {
				s.putRecord(defaultKey, "b", nil)
			}
			s.wait(0)
			want = append(want, i%2 == 0)
			select {
			case <-changed:
			default:
				s.Fatal("the channel must be closed")
			}
		}
		var got []bool
		for _, tr := range a.transitions[1:] {
			got = append(got, tr.Paused)
		}
		if !slices.Equal(got, want) {
			s.Errorf("got transitions %v, want %v", got, want)
		}
	})
}

// Users choose the texts of records.
func TestMessage_LongTextsAreCut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	peer := Peer{Identity: long, Record: Record{Priority: 9, Lifetime: time.Minute, Message: long}, Since: time.Now()}
	decision := Self{Identity: "me"}.Decide([]Peer{peer}, time.Now())
	if text := decision.message(Self{}); !decision.Paused || len(text) > 1000 || !strings.Contains(text, "xxx") {
		t.Errorf("paused = %t, and the message has %d bytes", decision.Paused, len(text))
	}
}
