package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A Flush of a daemon keeps the conditions of other clients.
func TestFlush_KeepsConditionsOfOthersInDaemons(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).Timer("t", daemons.Timer{Interval: time.Hour}, func(ctx context.Context, req *kopf.Request[widget]) error {
		wait(2 * time.Second) // the other client writes during this time
		req.Conditions().True("Mine", "Begun", "")
		if err := req.Flush(ctx); err != nil {
			return err
		}
		req.Conditions().True("Also", "Done", "")
		return nil
	})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		s.patchStatus(t, `{"status":{"conditions":[{"type":"Theirs","status":"True","reason":"R","message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`)
		wait(10 * time.Second)
		if got := conditionsOf(s.now(t)); !slices.Contains(got, "Theirs=True") || !slices.Contains(got, "Also=True") {
			t.Errorf("conditions = %v, want Theirs=True and Also=True", got)
		}
	})
}

// A Flush of a cause handler keeps the conditions of other clients.
func TestFlush_KeepsConditionsOfOthersInHandlers(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).OnCreate("c", func(ctx context.Context, req *kopf.Request[widget]) error {
		wait(2 * time.Second)
		req.Conditions().True("Mine", "Begun", "")
		if err := req.Flush(ctx); err != nil {
			return err
		}
		return nil
	})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		s.patchStatus(t, `{"status":{"conditions":[{"type":"Theirs","status":"True","reason":"R","message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`)
		wait(10 * time.Second)
		if got := conditionsOf(s.now(t)); !slices.Contains(got, "Theirs=True") || !slices.Contains(got, "Mine=True") {
			t.Errorf("conditions = %v, want Theirs=True and Mine=True", got)
		}
	})
}

// A Flush keeps the elements that other clients have added to a list.
func TestFlush_KeepsListsOfOthers(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).Timer("t", daemons.Timer{Interval: time.Hour}, func(ctx context.Context, req *kopf.Request[widget]) error {
		wait(2 * time.Second)
		req.Object.Status.Phase = "Working"
		if err := req.Flush(ctx); err != nil {
			return err
		}
		req.Object.Spec.Tags = append(req.Object.Spec.Tags, "mine")
		return nil
	})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		s.patch(t, `{"spec":{"tags":["theirs"]}}`)
		wait(10 * time.Second)
		if got := s.now(t).Spec.Tags; !slices.Contains(got, "theirs") || !slices.Contains(got, "mine") {
			t.Errorf("tags = %v, want theirs and mine", got)
		}
	})
}

// If a handler reverts a value after a Flush, the engine writes the reverted value.
func TestFlush_WritesRevertedValues(t *testing.T) {
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"timer":   kopf.For(&v1.Widget{}).Timer("t", daemons.Timer{Interval: time.Hour}, changeAndRevert),
		"handler": kopf.For(&v1.Widget{}).OnCreate("t", changeAndRevert),
		"level":   kopf.For(&v1.Widget{}).OnReconcile("t", changeAndRevert),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(10 * time.Second)
				if got := s.now(t).Status.Phase; got != "" {
					t.Errorf("phase = %q, want the reverted (empty) value", got)
				}
			})
		})
	}
}

func changeAndRevert(ctx context.Context, req *kopf.Request[widget]) error {
	was := req.Object.Status.Phase
	req.Object.Status.Phase = "Working"
	if err := req.Flush(ctx); err != nil {
		return err
	}
	wait(time.Second)
	req.Object.Status.Phase = was
	return nil
}

// A reconcile handler's own Flush does not call the handler again.
func TestFlush_DoesNotCallReconcileHandlersAgain(t *testing.T) {
	var calls atomic.Int64
	widgets := kopf.For(&v1.Widget{}).OnReconcile("l", func(ctx context.Context, req *kopf.Request[widget]) error {
		calls.Add(1)
		req.Object.Status.Phase = "Working"
		if err := req.Flush(ctx); err != nil {
			return err
		}
		req.Object.Status.Phase = "Done"
		return nil
	})
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if n := calls.Load(); n != 1 {
			t.Errorf("calls of the reconcile handler = %d, want 1", n)
		}
	})
}

// B-13: a handler's change of a watched status field causes one update, with or without a Flush.
func TestFlush_WatchedFieldIsOneUpdate(t *testing.T) {
	for name, flush := range map[string]bool{"at the end": false, "flushed": true} {
		for kind, add := range map[string]func(*kopf.Resource[widget], kopf.Handler[widget]){
			"timer": func(r *kopf.Resource[widget], h kopf.Handler[widget]) {
				r.Timer("t", daemons.Timer{Interval: time.Hour}, h, kopf.InitialDelay(10*time.Second))
			},
			"handler": func(r *kopf.Resource[widget], h kopf.Handler[widget]) { r.OnUpdate("t", h, kopf.Field("spec.size")) },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				var calls atomic.Int64
				widgets := kopf.For(&v1.Widget{}).OnCreate("c", func(context.Context, *kopf.Request[widget]) error { return nil }).OnField("f", "status.phase", func(_ context.Context, req *kopf.Request[widget]) error {
					calls.Add(1)
					t.Logf("%s %s %v", time.Now(), req.Reason, req.Diff)
					return nil
				})
				add(widgets, func(ctx context.Context, req *kopf.Request[widget]) error {
					req.Object.Status.Phase = "Mine"
					if flush {
						return req.Flush(ctx)
					}
					return nil
				})
				play(t, widgets, func(t *testing.T, s *scene) {
					wait(20 * time.Second)
					s.patch(t, `{"spec":{"size":2}}`)
					wait(20 * time.Second)
					if calls.Load() != 1 {
						t.Errorf("updates for the edit of the handler = %d, want 1", calls.Load())
					}
				})
			})
		}
	}
}

// A Flush of an abandoned daemon returns an error after the operator has ended.
func TestFlush_FailsAfterTheOperatorEnded(t *testing.T) {
	flushed := make(chan error, 1)
	ended := make(chan struct{})
	widgets := kopf.For(&v1.Widget{}).Daemon("d", daemons.Daemon{CancellationTimeout: new(time.Second)}, func(_ context.Context, req *kopf.Request[widget]) error {
		<-ended
		req.Object.Status.Phase = "late"
		flushed <- req.Flush(context.Background())
		return nil
	})
	synctest.Test(t, func(t *testing.T) {
		ended = make(chan struct{})
		flushed = make(chan error, 1)
		config, scheme, users := newWorld(t)
		obj := makeWidget(t, users, "one")
		runFor(t, config, scheme, 10*time.Second, widgets)
		close(ended)
		err := <-flushed
		now := &v1.Widget{}
		must(t, users.Get(t.Context(), client.ObjectKeyFromObject(obj), now))
		if err == nil || now.Status.Phase != "" {
			t.Errorf("phase after the end = %q, Flush returned %v, want no write and an error", now.Status.Phase, err)
		}
	})
}

// The progress condition of a handler keeps conditions that the handler sets after a Flush.
func TestFlush_KeepsLaterConditions(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("Ready", "Created", "Filled")).
		OnCreate("create", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number == 0 {
				return errors.New("busy")
			}
			return nil
		}, kopf.Backoff(3*time.Second), kopf.ReportCondition("Created")).
		OnCreate("fill", func(ctx context.Context, req *kopf.Request[widget]) error {
			for n := range 3 {
				req.Conditions().Unknown("Filled", "Copying", fmt.Sprint(n))
				if err := req.Flush(ctx); err != nil {
					return err
				}
				wait(500 * time.Millisecond)
			}
			req.Conditions().True("Filled", "Copied", "3")
			return nil
		}, kopf.After("create"))
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(30 * time.Second)
		if got, want := conditionsOf(s.now(t)), []string{"Ready=True", "Created=True", "Filled=True"}; !slices.Equal(got, want) {
			t.Errorf("conditions = %v, want %v", got, want)
		}
	})
}

// The flushed status of a handler replaces the changes that earlier handlers made to the same fields in the same
// reconcile.
func TestFlush_ReplacesChangesOfEarlierHandlers(t *testing.T) {
	created := func(_ context.Context, req *kopf.Request[widget]) error {
		req.Object.Status.Phase = "Created"
		req.Object.Status.Log = []string{"created"}
		req.Conditions().True("Ready", "Created", "")
		req.Conditions().True("Stored", "Created", "")
		return nil
	}
	pending := func(ctx context.Context, req *kopf.Request[widget]) error {
		req.Object.Status.Phase = "Pending"
		req.Object.Status.Log = append(req.Object.Status.Log, "pending")
		req.Conditions().False("Ready", "Pending", "")
		return req.Flush(ctx)
	}
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"of two cause handlers":                                          kopf.For(&v1.Widget{}).OnCreate("a", created).OnCreate("b", pending),
		"of a cause handler and a sub-handler":                           kopf.For(&v1.Widget{}).OnCreate("a", withSub(created, pending)),
		"of a cause handler and a reconcile handler":                     kopf.For(&v1.Widget{}).OnCreate("a", created).OnReconcile("b", pending),
		"of two reconcile handlers":                                      kopf.For(&v1.Widget{}).OnReconcile("a", created).OnReconcile("b", pending),
		"of two cause handlers, before a third one with the same values": kopf.For(&v1.Widget{}).OnCreate("a", created).OnCreate("b", pending).OnCreate("c", pending),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(10 * time.Second)
				got := s.now(t)
				if got.Status.Phase != "Pending" {
					t.Errorf("phase = %q, want Pending", got.Status.Phase)
				}
				if log := got.Status.Log; len(log) < 2 || log[0] != "created" || log[1] != "pending" {
					t.Errorf("log = %q, want created and pending as the first entries", log)
				}
				if conditions := conditionsOf(got); !slices.Equal(conditions, []string{"Ready=False", "Stored=True"}) {
					t.Errorf("conditions = %v, want Ready=False and Stored=True", conditions)
				}
			})
		})
	}
}

func withSub(parent, sub kopf.Handler[widget]) kopf.Handler[widget] {
	return func(ctx context.Context, req *kopf.Request[widget]) error {
		req.Sub("sub", sub)
		return parent(ctx, req)
	}
}

// If another client changes a field after a Flush, the engine does not overwrite it with an earlier handler's value.
func TestFlush_KeepsLaterChangesOfOtherClients(t *testing.T) {
	created := func(_ context.Context, req *kopf.Request[widget]) error {
		req.Object.Status.Phase = "Created"
		req.Conditions().True("Ready", "Created", "")
		return nil
	}
	pending := func(ctx context.Context, req *kopf.Request[widget]) error {
		if req.Object.Status.Phase != "Created" {
			return nil // the other client's change calls reconcile handlers again
		}
		req.Object.Status.Phase = "Pending"
		req.Conditions().False("Ready", "Pending", "")
		defer wait(5 * time.Second) // the other client writes during this time
		return req.Flush(ctx)
	}
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"cause handlers":      kopf.For(&v1.Widget{}).OnCreate("a", created).OnCreate("b", pending),
		"a reconcile handler": kopf.For(&v1.Widget{}).OnCreate("a", created).OnReconcile("b", pending),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(2 * time.Second)
				s.patchStatus(t, `{"status":{"phase":"Theirs","conditions":[{"type":"Ready","status":"Unknown","reason":"R","message":"","lastTransitionTime":"2000-01-01T00:00:02Z"}]}}`)
				wait(3500 * time.Millisecond)
				got := s.now(t)
				if got.Status.Phase != "Theirs" || !slices.Equal(conditionsOf(got), []string{"Ready=Unknown"}) {
					t.Errorf("phase = %q, conditions = %v, want Theirs and Ready=Unknown", got.Status.Phase, conditionsOf(got))
				}
			})
		})
	}
}

// A Flush whose values are already stored sends no request. Its values still replace the changes of earlier handlers.
func TestFlush_OfStoredValuesReplacesChangesOfEarlierHandlers(t *testing.T) {
	for name, test := range map[string]struct{ last, theirs, want string }{
		"and the handler changes them once more": {"Created", "", "Created"},
		"and another client changes them":        {"Pending", `{"status":{"phase":"Theirs"}}`, "Theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			widgets := kopf.For(&v1.Widget{}).
				OnUpdate("a", func(_ context.Context, req *kopf.Request[widget]) error {
					req.Object.Status.Phase = "Created"
					return nil
				}).
				OnUpdate("b", func(ctx context.Context, req *kopf.Request[widget]) error {
					req.Object.Status.Phase = "Pending"
					if err := req.Flush(ctx); err != nil {
						return err
					}
					req.Object.Status.Phase = test.last
					return nil
				}).
				OnUpdate("c", func(ctx context.Context, req *kopf.Request[widget]) error {
					wait(5 * time.Second) // another client writes during this time
					req.Object.Status.Log = []string{"flushed"}
					return req.Flush(ctx)
				}).
				OnCreate("made", func(context.Context, *kopf.Request[widget]) error { return nil })
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(time.Second)
				s.patchStatus(t, `{"status":{"phase":"Pending"}}`)
				wait(time.Second)
				s.patch(t, `{"spec":{"size":2}}`)
				wait(time.Second)
				if test.theirs != "" {
					s.patchStatus(t, test.theirs)
				}
				wait(10 * time.Second)
				if got := s.now(t).Status.Phase; got != test.want {
					t.Errorf("phase = %q, want %q", got, test.want)
				}
			})
		})
	}
}
