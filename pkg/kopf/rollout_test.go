package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// A fleet is many objects that an operator handles for a newer revision.
type fleet struct {
	*testing.T
	*kopftest.Cluster
	options  rollout.Options
	revision int
	stop     func() error
	// work is what the handler does for a revision. It is called without the lock.
	work func(ctx context.Context, name string) error

	mu      sync.Mutex
	begun   []string // the objects in the order of their first calls for a revision
	last    time.Time
	running map[string]bool
	most    int // the most objects that were unfinished at a time
}

var fleetState = client.ObjectKey{Namespace: "default", Name: rollout.DefaultName}

func rolloutTest(t *testing.T, objects int, options rollout.Options, test func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		options.Namespace = "default"
		f := &fleet{T: t, Cluster: kopftest.Memory(t), options: options, running: map[string]bool{}}
		f.work = func(context.Context, string) error { return nil }
		f.upgrade(0)
		for i := range objects {
			f.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o%03d", i), Labels: map[string]string{"fleet": ""}}, Data: map[string]string{"a": "1"}})
		}
		<-time.After(time.Minute)
		test(f)
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// upgrade replaces the operator with one whose handler has the revision. 0 means none.
func (f *fleet) upgrade(revision int) {
	f.Helper()
	if f.stop != nil {
		if err := f.stop(); err != nil {
			f.Fatal(err)
		}
	}
	if f.revision != revision {
		f.mu.Lock()
		f.begun, f.running, f.most = nil, map[string]bool{}, 0
		f.mu.Unlock()
	}
	f.revision = revision
	options := []kopf.HandlerOption{kopf.Label("fleet")}
	var operator []kopf.Option
	if revision > 0 {
		options, operator = append(options, kopf.Revision(revision)), append(operator, kopf.WithRollout(f.options))
	}
	f.stop = runShard(f.T, f.Cluster, append(operator, kopf.For(&corev1.ConfigMap{}).OnCreateOrUpdate("apply", f.apply, options...))...)
}

func (f *fleet) apply(ctx context.Context, req *kopf.Request[configMap]) error {
	if req.Reason != kopf.ReasonRevision {
		if req.Reason == kopf.ReasonUpdate {
			f.mu.Lock()
			f.begun = append(f.begun, "update of "+req.Object.Name)
			f.mu.Unlock()
		}
		return nil
	}
	f.mu.Lock()
	if !slices.Contains(f.begun, req.Object.Name) {
		f.begun = append(f.begun, req.Object.Name)
	}
	f.running[req.Object.Name] = true
	f.most, f.last = max(f.most, len(f.running)), time.Now()
	f.mu.Unlock()
	err := f.work(ctx, req.Object.Name)
	if !isTemporary(err) && ctx.Err() == nil {
		f.mu.Lock()
		delete(f.running, req.Object.Name)
		f.mu.Unlock()
	}
	return err
}

func isTemporary(err error) bool {
	_, is := errors.AsType[*progress.TemporaryError](err)
	return is
}

// sleep waits in a handler.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state returns the state of the rollout.
func (f *fleet) state() rollout.State {
	f.Helper()
	states, err := rollout.Load(f.Context(), f.Client, fleetState)
	if err != nil {
		f.Fatal(err)
	}
	return states["configmaps"]
}

// expect checks how many objects have begun, and that no more were unfinished at a time than most.
func (f *fleet) expect(begun, most int) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.begun) != begun || f.most > most {
		f.Errorf("%d objects have begun, %d at a time, want %d, and at most %d: %q", len(f.begun), f.most, begun, most, f.begun)
	}
}

func (f *fleet) expectProgress(want rollout.Progress) {
	f.Helper()
	got := f.state().Progress[""]
	got.At, got.Begun = time.Time{}, time.Time{}
	if got != want {
		f.Errorf("progress %+v, want %+v", got, want)
	}
}

func TestRollout_InPortions(t *testing.T) {
	rolloutTest(t, 40, rollout.Options{Canaries: 0.1, Soak: 10 * time.Minute, MaxParallel: 3}, func(f *fleet) {
		f.work = func(ctx context.Context, _ string) error { return sleep(ctx, time.Minute) }
		f.upgrade(1)
		<-time.After(90 * time.Second)
		f.expect(4, 3)
		<-time.After(10 * time.Minute)
		f.expect(4, 3)
		f.expectProgress(rollout.Progress{Total: 40, Waiting: 36, Done: 4})
		<-time.After(3 * time.Minute)
		if f.mu.Lock(); f.most != 3 {
			t.Errorf("at most %d objects were unfinished at a time, want 3", f.most)
		}
		f.mu.Unlock()
		first := slices.Sorted(slices.Values(f.begun[:4]))
		f.upgrade(1) // after a restart, it neither begins again nor exceeds the limit
		<-time.After(30 * time.Minute)
		f.expect(40, 3)
		f.expectProgress(rollout.Progress{Total: 40, Done: 40})
		state := f.state()
		if state.Revisions != "apply 1" || state.Halted != nil {
			t.Errorf("state = %+v", state)
		}
		halt := func(s *rollout.State) error { s.Halted = &rollout.Stop{By: "jane"}; return nil }
		if err := rollout.Change(t.Context(), f.Client, fleetState, "configmaps", halt); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if f.state().Halted != nil {
			t.Error("a rollout that is complete is halted")
		}
		f.upgrade(2)
		<-time.After(90 * time.Second)
		if f.mu.Lock(); !slices.Equal(slices.Sorted(slices.Values(f.begun)), first) {
			t.Errorf("the canaries are %q, and were %q", f.begun, first)
		}
		f.mu.Unlock()
	})
}

func TestRollout_Halts(t *testing.T) {
	rolloutTest(t, 50, rollout.Options{Canaries: 0.2, MaxParallel: 2, HaltAt: 0.25}, func(f *fleet) {
		broken := true
		var mu sync.Mutex
		calls := 0
		f.work = func(context.Context, string) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; broken && calls%2 == 0 {
				return kopf.Permanent(errors.New("invalid"))
			}
			return nil
		}
		f.upgrade(1)
		<-time.After(5 * time.Minute)
		begun := len(f.begun)
		if state := f.state(); begun > 10 || state.Halted == nil || state.Halted.By != "rollout" || !strings.Contains(state.Halted.Message, "of 10 canaries have failed") {
			t.Fatalf("%d objects have begun, and the state is %+v: want a halt within 10", begun, state)
		}
		f.upgrade(1)
		<-time.After(5 * time.Minute)
		f.expect(begun, 2)
		waits := f.state().Progress[""].Waiting

		// Users' changes go on.
		f.edit("o010")
		f.edit("o020")
		<-time.After(time.Minute)
		f.expect(begun+2, 2)
		if got := f.state().Progress[""].Waiting; got < waits-2 {
			t.Errorf("%d objects wait, %d waited before", got, waits)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		if err := rollout.Resume(t.Context(), f.Client, fleetState, "configmaps"); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Minute)
		if state := f.state(); state.Halted != nil || state.Resume || state.Resumed != nil || state.Progress[""].Waiting != 0 {
			t.Errorf("after the resumption, the state is %+v", state)
		}
		if err := rollout.Resume(t.Context(), f.Client, fleetState, "configmaps"); err == nil || !strings.Contains(err.Error(), "is not halted") {
			t.Errorf("a second resumption: %v", err)
		}
	})
}

func (f *fleet) edit(name string) {
	f.Helper()
	kopftest.Edit(f.T, f.Cluster, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, func(obj configMap) { obj.Data["a"] += "1" })
}

// People halt a rollout before it begins with more objects.
func TestRollout_HaltedByPeople(t *testing.T) {
	rolloutTest(t, 20, rollout.Options{MaxParallel: 1}, func(f *fleet) {
		f.work = func(ctx context.Context, _ string) error { return sleep(ctx, time.Minute) }
		if err := rollout.Halt(t.Context(), f.Client, fleetState, "configmaps", "jane", "wait"); err == nil || !strings.Contains(err.Error(), "no rollout") {
			t.Errorf("a halt before the rollout: %v", err)
		}
		f.upgrade(1)
		<-time.After(150 * time.Second)
		if err := rollout.Halt(t.Context(), f.Client, fleetState, "configmaps", "jane", "wait for me"); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		f.expect(3, 1)
		f.upgrade(1)
		<-time.After(10 * time.Minute)
		f.expect(3, 1)
		if state := f.state(); state.Halted == nil || state.Halted.By != "jane" {
			t.Errorf("state = %+v", state)
		}
		f.upgrade(2) // a halt is only for these revisions
		<-time.After(30 * time.Minute)
		f.expect(20, 1)
	})
}

// An object that retries for ever doesn't stop the others, but counts as failed.
func TestRollout_Deadline(t *testing.T) {
	rolloutTest(t, 6, rollout.Options{MaxParallel: 1, Deadline: 10 * time.Minute, HaltAt: 0.5}, func(f *fleet) {
		var stuck string
		var mu sync.Mutex
		f.work = func(_ context.Context, name string) error {
			mu.Lock()
			defer mu.Unlock()
			if stuck == "" {
				stuck = name
			}
			if stuck == name {
				return kopf.Temporary(errors.New("busy"), time.Minute)
			}
			return nil
		}
		f.upgrade(1)
		<-time.After(5 * time.Minute)
		f.expect(1, 1)
		<-time.After(6 * time.Minute)
		f.expectProgress(rollout.Progress{Total: 6, Running: 1, Done: 5, Failed: 1})
		mu.Lock()
		stuck = "none"
		mu.Unlock()
		<-time.After(2 * time.Minute)
		f.expectProgress(rollout.Progress{Total: 6, Done: 6})
	})
}

func TestRollout_OptOut(t *testing.T) {
	const key = "example.com/hold"
	rolloutTest(t, 10, rollout.Options{MaxParallel: 1, OptOut: key}, func(f *fleet) {
		annotate := func(name, value string) {
			kopftest.Edit(t, f.Cluster, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, func(obj configMap) {
				all := maps.Clone(obj.Annotations)
				if all == nil {
					all = map[string]string{}
				}
				if all[key] = value; value == "" {
					delete(all, key)
				}
				obj.Annotations = all
			})
		}
		annotate("o003", "holidays")
		annotate("o007", "now")
		<-time.After(time.Minute)
		f.work = func(ctx context.Context, _ string) error { return sleep(ctx, time.Minute) }
		f.upgrade(1)
		<-time.After(30 * time.Second)
		if f.mu.Lock(); !slices.Equal(f.begun, []string{"o007"}) {
			t.Errorf("%q have begun, want o007", f.begun)
		}
		f.mu.Unlock()
		<-time.After(20 * time.Minute)
		f.expect(9, 1)
		f.expectProgress(rollout.Progress{Total: 9, Done: 9})
		annotate("o003", "")
		<-time.After(20 * time.Minute)
		f.expect(10, 1)
		f.expectProgress(rollout.Progress{Total: 1, Done: 1})
	})
}

func TestRollout_Window(t *testing.T) {
	rolloutTest(t, 5, rollout.Options{MaxParallel: 1, Window: rollout.Window{From: 22 * time.Hour, To: 23 * time.Hour}}, func(f *fleet) {
		f.work = func(ctx context.Context, _ string) error { return sleep(ctx, 50*time.Minute) }
		f.upgrade(1)
		<-time.After(21 * time.Hour)
		f.expect(0, 0)
		<-time.After(2 * time.Hour)
		f.expect(2, 1)
		<-time.After(24 * time.Hour)
		f.expect(4, 1)
	})
}

// With an unreadable ConfigMap, nothing begins.
func TestRollout_UnreadableState(t *testing.T) {
	rolloutTest(t, 3, rollout.Options{}, func(f *fleet) {
		broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: rollout.DefaultName}, Data: map[string]string{"configmaps": "garbage"}}
		f.Create(t, broken)
		f.upgrade(1)
		<-time.After(10 * time.Minute)
		f.expect(0, 0)
		f.Cluster.Delete(t, broken)
		<-time.After(10 * time.Minute)
		f.expect(3, 3)
	})
}

func TestWithRollout_Mistakes(t *testing.T) {
	ok := func(context.Context, *kopf.Request[configMap]) error { return nil }
	for want, options := range map[string]rollout.Options{
		"no handler has a Revision":         {Namespace: "default"},
		"HaltAt must be a part":             {HaltAt: 20},
		"set Namespace, or the environment": {},
	} {
		err := kopf.SetupWithManager(newShardManager(t, kopftest.Memory(t)), kopf.For(&corev1.ConfigMap{}).OnUpdate("a", ok), kopf.WithRollout(options))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one with %q", err, want)
		}
	}
}
