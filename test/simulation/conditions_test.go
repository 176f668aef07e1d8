package simulation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

func conditionsOf(obj widget) (all []string) {
	for _, c := range obj.Status.Conditions {
		all = append(all, c.Type+"="+string(c.Status))
	}
	return all
}

// The engine does not log that the server has dropped its own write of a watched condition.
func TestOnCondition_ReceivesThePreviousValue(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("c", func(_ context.Context, req *kopf.Request[widget]) error {
			req.Conditions().False("Ready", "No", "")
			return nil
		}).
		OnUpdate("u", func(_ context.Context, req *kopf.Request[widget]) error {
			req.Conditions().True("Ready", "Yes", "")
			return nil
		}).
		OnCondition("t", "Ready", func(_ context.Context, req *kopf.Request[widget]) error {
			mu.Lock()
			defer mu.Unlock()
			old, now := req.Field()
			seen = append(seen, sprint(old)+" to "+sprint(now))
			return nil
		})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(10 * time.Second)
		s.patch(t, `{"spec":{"size":2}}`)
		wait(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"<nil> to False", "False to True"}; !slices.Equal(seen, want) {
			t.Errorf("transitions = %q, want %q", seen, want)
		}
	})
}

// When the engine skips a handler because its predecessor failed, the condition of the skipped handler does not stay
// Running.
func TestReportedConditions_OfSkippedHandlers(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("First", "Second")).
		OnCreate("first", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Second)
			}
			return kopf.Permanent(errors.New("no"))
		}, kopf.ReportCondition("First")).
		OnCreate("second", func(context.Context, *kopf.Request[widget]) error { return nil },
			kopf.After("first"), kopf.ReportCondition("Second"))
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Minute)
		if got := conditionsOf(s.now(t)); !slices.Equal(got, []string{"First=False", "Second=False"}) {
			t.Errorf("conditions = %v, want First=False and Second=False", got)
		}
	})
}

// For a resource without handlers, the engine writes the conditions once.
func TestConditions_WithoutHandlersAreWrittenOnce(t *testing.T) {
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"timer": kopf.For(&v1.Widget{}, kopf.WithConditions("A", "Ready")).Timer("t", daemons.Timer{Interval: time.Minute}, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Conditions().True("A", "Fine", "")
			return nil
		}),
		"level": kopf.For(&v1.Widget{}, kopf.WithConditions("A", "Ready")).OnReconcile("t", func(context.Context, *kopf.Request[widget]) error { return nil }, kopf.ReportCondition("A")),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(10 * time.Second)
				first := s.now(t)
				wait(10 * time.Minute)
				last := s.now(t)
				if first.ResourceVersion != last.ResourceVersion || !slices.Contains(conditionsOf(last), "Ready=True") {
					t.Errorf("resource version changed from %s to %s, or conditions = %v, want Ready=True and no write", first.ResourceVersion, last.ResourceVersion, conditionsOf(last))
				}
				s.patch(t, `{"spec":{"size":2}}`)
				wait(10 * time.Minute)
				t.Logf("%+v", s.now(t).Status.Conditions)
			})
		})
	}
}

// B-60: the initial status Unknown of a declared condition does not overwrite a value of another client.
func TestDeclaredConditions_DoNotOverwrite(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("A")).OnCreate("c", func(context.Context, *kopf.Request[widget]) error {
		wait(2 * time.Second)
		return nil
	})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		s.patchStatus(t, `{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`)
		wait(10 * time.Second)
		if got := conditionsOf(s.now(t)); !slices.Equal(got, []string{"A=True"}) {
			t.Errorf("conditions = %v, want A=True", got)
		}
	})
}

// The initial status does not overwrite a value that a daemon sets during the first reconcile. The test has many objects because the outcome is a
// race.
func TestDeclaredConditions_DoNotOverwriteDaemons(t *testing.T) {
	for range 20 {
		widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("A", "Ready")).Daemon("d", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
			req.Conditions().True("A", "Fine", "")
			if err := req.Flush(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		play(t, widgets, func(t *testing.T, s *scene) {
			wait(time.Minute)
			if got := conditionsOf(s.now(t)); !slices.Contains(got, "Ready=True") {
				t.Errorf("conditions = %v, want Ready=True", got)
			}
		})
	}
}
