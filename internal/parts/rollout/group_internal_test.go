package rollout

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// fleet is a group with objects and a clock.
type fleet struct {
	*testing.T
	*group
	now time.Time
}

func newFleet(t *testing.T, objects int, options rollout.Options) *fleet {
	f := &fleet{t, newGroup(options.WithDefaults(), "apply 1", ""), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range objects {
		f.see(i, revision.Standing{Due: true})
	}
	f.isKnown = true
	f.setControl(rollout.State{})
	return f
}

func key(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint("o", i)} }

func (f *fleet) see(i int, s revision.Standing) {
	s.UID = types.UID(fmt.Sprint("uid-", i))
	f.observe(key(i), s)
}

// next returns the objects that the group releases, and checks its numbers.
func (f *fleet) next() (released []int) {
	f.Helper()
	d := f.decide(f.now, func(string) bool { return false })
	for _, one := range d.release {
		var i int
		_, _ = fmt.Sscanf(one.Name, "o%d", &i)
		released = append(released, i)
	}
	p := f.progress()
	if p.Done < 0 || p.Total != p.Waiting+p.Running+p.Done {
		f.Errorf("the numbers don't add up: %+v", p)
	}
	return released
}

func (f *fleet) finish(i int, failed bool) {
	s := revision.Standing{Ended: f.now}
	if failed {
		s.Failed = f.now
	}
	f.see(i, s)
}

// all lets the group run until nothing is released any more.
func (f *fleet) all(fails func(n int) bool) (tried int) {
	for {
		released := f.next()
		if len(released) == 0 {
			return tried
		}
		f.now = f.now.Add(time.Second)
		for _, i := range released {
			f.finish(i, fails(tried))
			tried++
		}
	}
}

func TestGroup_ReleasedObjectThatNeverBegins(t *testing.T) {
	f := newFleet(t, 3, rollout.Options{MaxParallel: 1, Deadline: time.Minute, HaltAt: 1})
	if got := f.next(); len(got) != 1 {
		t.Fatalf("released %v", got)
	}
	if got := f.next(); len(got) != 0 {
		t.Errorf("released %v beside the first one", got)
	}
	f.now = f.now.Add(time.Minute)
	if got := f.next(); len(got) != 1 || f.progress().Failed != 1 {
		t.Errorf("after the deadline: released %v, progress %+v", got, f.progress())
	}
}

// Objects that an earlier rollout has begun with are late at once if their deadline has passed. They count as neither done nor failed.
func TestGroup_LateFromBefore(t *testing.T) {
	f := newFleet(t, 5, rollout.Options{Canaries: 1, MaxParallel: 2, Deadline: time.Minute})
	for i := 5; i < 10; i++ {
		f.see(i, revision.Standing{Due: true, Entered: f.now.Add(-time.Hour)})
	}
	if got := f.next(); len(got) != 2 {
		t.Errorf("released %v, want 2", got)
	}
	if p := f.progress(); p.Total != 10 || p.Running != 7 || p.Failed != 0 {
		t.Errorf("progress %+v", p)
	}
}

// Failures of an earlier rollout don't count for a later one, even if the same objects are the canaries.
func TestGroup_EarlierFailures(t *testing.T) {
	f := newFleet(t, 10, rollout.Options{Canaries: 0.5, MaxParallel: 1, HaltAt: 1})
	if n := f.all(func(n int) bool { return n < 4 }); n != 10 {
		t.Fatalf("%d objects were tried", n)
	}
	failed := map[int]time.Time{}
	for i := range 10 {
		failed[i] = f.objects[key(i)].failed
	}
	f.options.HaltAt = 0.1
	f.now = f.now.Add(time.Hour)
	for i := range 10 {
		f.see(i, revision.Standing{Due: true})
	}
	for n := 0; ; n++ {
		released := f.next()
		if len(released) == 0 {
			if n != 10 || f.control.Halted != nil {
				t.Errorf("the second rollout has reached %d of 10 objects: %+v", n, f.control.Halted)
			}
			return
		}
		f.now = f.now.Add(time.Second)
		f.see(released[0], revision.Standing{Ended: f.now, Failed: failed[released[0]]})
	}
}

// A rollout that is over can't halt, for example because successful objects are deleted.
func TestGroup_OverIsOver(t *testing.T) {
	f := newFleet(t, 10, rollout.Options{Canaries: 1, HaltAt: 0.2})
	f.all(func(n int) bool { return n < 2 })
	if f.next(); f.control.Halted != nil || f.isActive() {
		t.Fatalf("halted: %+v", f.control.Halted)
	}
	for i := range 10 {
		if one := f.objects[key(i)]; one.failed.IsZero() {
			f.forget(one.key)
		}
	}
	if d := f.decide(f.now, func(string) bool { return false }); d.halt != "" || f.control.Halted != nil {
		t.Errorf("a rollout that is over has halted: %q", d.halt)
	}
}

// A halt that isn't saved yet survives what the ConfigMap said before.
func TestGroup_UnsavedHalt(t *testing.T) {
	f := newFleet(t, 10, rollout.Options{Canaries: 1, MaxParallel: 10, HaltAt: 0.1})
	released := f.next()
	f.finish(released[0], true)
	f.finish(released[1], true)
	if f.next(); f.control.Halted == nil {
		t.Fatal("not halted")
	}
	f.setControl(rollout.State{Revisions: "apply 1"})
	if f.control.Halted == nil {
		t.Error("the halt is lost")
	}
	f.setControl(rollout.State{Revisions: "apply 1", Resumed: &f.now})
	if f.control.Halted != nil {
		t.Error("the resumption is ignored")
	}
}

// Nothing happens where the operator is paused, and the deadline goes on after the pause.
func TestGroup_Pause(t *testing.T) {
	f := newFleet(t, 3, rollout.Options{MaxParallel: 1, Deadline: time.Minute})
	f.next()
	f.now = f.now.Add(time.Hour)
	paused := func(string) bool { return true }
	if d := f.decide(f.now, paused); len(d.release) > 0 || f.counts[late] > 0 {
		t.Errorf("decision in a pause: %+v, late: %d", d, f.counts[late])
	}
	f.now = f.now.Add(30 * time.Second)
	if f.next(); f.counts[late] > 0 {
		t.Error("the object is late although the operator was paused")
	}
	f.now = f.now.Add(31 * time.Second)
	if f.next(); f.counts[late] != 1 {
		t.Error("the object is not late after the pause")
	}
}
