package simulation

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// paints returns a handler that changes the spec, and sets the condition Synced.
func paints(color string) kopf.Handler[widget] {
	return func(_ context.Context, req *kopf.Request[widget]) error {
		req.Object.Spec.Color = color
		req.Conditions().True("Synced", "UpToDate", "")
		return nil
	}
}

func succeeds(context.Context, *kopf.Request[widget]) error { return nil }

// expectCurrent checks that all conditions of a widget describe its present generation.
func expectCurrent(t *testing.T, s *scene, when string, types ...string) {
	t.Helper()
	obj := s.now(t)
	var found []string
	for _, c := range obj.Status.Conditions {
		found = append(found, c.Type)
		if c.ObservedGeneration != obj.Generation {
			t.Errorf("%s: condition %s=%s (%s) is of generation %d, want %d", when, c.Type, c.Status, c.Reason, c.ObservedGeneration, obj.Generation)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, types) {
		t.Errorf("%s: conditions %q, want %q", when, found, types)
	}
}

// A handler that changes the spec raises the generation. The conditions of the operator must describe the new generation, because it contains nothing
// that the operator has not seen.
func TestObservedGeneration_AfterOwnChangesOfTheSpec(t *testing.T) {
	fresh := kopf.WithRootCondition(conditions.Root{Of: []string{"Synced"}, Fresh: true})
	byGeneration := func(ctx context.Context, req *kopf.Request[widget]) error { // changes the spec in each generation of a user
		req.Conditions().True("Synced", "UpToDate", "")
		if req.Object.Labels["color"] != "" {
			req.Object.Spec.Color = req.Object.Labels["color"]
		}
		return nil
	}
	for name, test := range map[string]struct {
		widgets *kopf.Resource[widget]
		options []kopf.Option
		want    []string
	}{
		"a cause handler": {kopf.For(&v1.Widget{}).OnCreate("paint", paints("blue")), nil, []string{"Synced"}},
		"declared conditions, a reported one and a root": {
			kopf.For(&v1.Widget{}, kopf.WithConditions("Synced", "Other"), fresh).OnCreate("paint", paints("blue"), kopf.ReportCondition("Painted")),
			nil, []string{"Other", "Painted", "Ready", "Synced"},
		},
		"handlers with a write between them": {
			kopf.For(&v1.Widget{}, fresh).
				OnCreate("sync", func(_ context.Context, req *kopf.Request[widget]) error {
					req.Conditions().True("Synced", "UpToDate", "")
					return nil
				}).
				OnCreate("paint", func(_ context.Context, req *kopf.Request[widget]) error {
					req.Object.Spec.Color = "blue"
					return nil
				}),
			[]kopf.Option{kopf.WithCheckpoint(0)}, []string{"Ready", "Synced"},
		},
		"a handler that is retried after another one has finished": {
			kopf.For(&v1.Widget{}).
				OnCreate("sync", func(_ context.Context, req *kopf.Request[widget]) error {
					req.Conditions().True("Synced", "UpToDate", "")
					return nil
				}).
				OnCreate("paint", func(_ context.Context, req *kopf.Request[widget]) error {
					if req.Attempt.Number == 0 {
						return kopf.Temporary(nil, time.Second)
					}
					req.Object.Spec.Color = "blue"
					return nil
				}),
			nil, []string{"Synced"},
		},
		"a flush before the change": {
			kopf.For(&v1.Widget{}).OnCreate("paint", func(ctx context.Context, req *kopf.Request[widget]) error {
				req.Conditions().True("Synced", "UpToDate", "")
				if err := req.Flush(ctx); err != nil {
					return err
				}
				req.Object.Spec.Color = "blue"
				return nil
			}),
			nil, []string{"Synced"},
		},
		"a condition set by hand": {
			kopf.For(&v1.Widget{}).OnCreate("paint", func(_ context.Context, req *kopf.Request[widget]) error {
				req.Object.Spec.Color = "blue"
				meta.SetStatusCondition(&req.Object.Status.Conditions, metav1.Condition{
					Type: "Synced", Status: metav1.ConditionTrue, Reason: "UpToDate", ObservedGeneration: req.Object.Generation,
				})
				return nil
			}),
			nil, []string{"Synced"},
		},
		"a reconcile handler": {kopf.For(&v1.Widget{}, fresh).OnReconcile("paint", byGeneration), nil, []string{"Ready", "Synced"}},
		"a timer": {
			kopf.For(&v1.Widget{}, kopf.WithConditions("Synced", "Ready", "Made")).
				OnCreate("make", succeeds, kopf.ReportCondition("Made")).Timer("paint", daemons.Timer{Interval: 30 * time.Second}, paints("blue"), kopf.InitialDelay(5*time.Second)),
			nil, []string{"Made", "Ready", "Synced"},
		},
		"an event handler": {
			kopf.For(&v1.Widget{}).OnEvent("paint", paints("blue"), kopf.WriteChanges()), nil, []string{"Synced"},
		},
		"an update after the object was written with the client": {
			kopf.For(&v1.Widget{}).OnCreate("paint", func(ctx context.Context, req *kopf.Request[widget]) error {
				set := req.Conditions()
				req.Object.Spec.Color = "blue"
				if err := req.Client.Update(ctx, req.Object); err != nil {
					return err
				}
				set.True("Synced", "UpToDate", "")
				return nil
			}),
			nil, []string{"Synced"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, test.widgets, func(t *testing.T, s *scene) {
				wait(time.Minute)
				expectCurrent(t, s, "after the creation", test.want...)
				for _, color := range []string{"red", "green", "white"} {
					if name != "a reconcile handler" {
						break
					}
					s.patch(t, `{"metadata":{"labels":{"color":"`+color+`"}}}`)
					wait(10 * time.Second)
					expectCurrent(t, s, "after the color "+color, test.want...)
				}
				before := s.now(t)
				wait(time.Hour)
				if now := s.now(t); now.ResourceVersion != before.ResourceVersion {
					t.Errorf("the operator does not stop writing: %+v", now)
				}
			}, test.options...)
		})
	}
}

// The condition that reports a handler is of the generation that the handler has received, although a write between two handlers returns a newer one.
func TestObservedGeneration_OfReportedHandlers(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("slow", func(context.Context, *kopf.Request[widget]) error {
			wait(2 * time.Second)
			return nil
		}, kopf.ReportCondition("Slow")).
		OnCreate("second", succeeds, kopf.ReportCondition("Second"))
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		s.patch(t, `{"spec":{"size":2}}`)
		wait(time.Minute)
		for _, c := range s.now(t).Status.Conditions {
			if want := map[string]int64{"Slow": 1, "Second": 2}[c.Type]; c.Status != metav1.ConditionTrue || c.ObservedGeneration != want {
				t.Errorf("condition %s=%s is of generation %d, want True of generation %d", c.Type, c.Status, c.ObservedGeneration, want)
			}
		}
	})
}

// A generation that contains a change of another client is not observed before a handler has received it.
func TestObservedGeneration_OmitsConcurrentEdits(t *testing.T) {
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"a cause handler": kopf.For(&v1.Widget{}).OnCreate("paint", func(ctx context.Context, req *kopf.Request[widget]) error {
			wait(2 * time.Second)
			return paints("blue")(ctx, req)
		}),
		"a timer": kopf.For(&v1.Widget{}).Timer("paint", daemons.Timer{Interval: time.Hour}, func(ctx context.Context, req *kopf.Request[widget]) error {
			wait(2 * time.Second)
			return paints("blue")(ctx, req)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(time.Second)
				s.patch(t, `{"spec":{"size":2}}`)
				wait(time.Minute)
				obj := s.now(t)
				if obj.Spec.Color != "blue" || obj.Generation != 3 {
					t.Fatalf("color %q in generation %d, want blue in generation 3", obj.Spec.Color, obj.Generation)
				}
				if got := obj.Status.Conditions[0].ObservedGeneration; got != 1 {
					t.Errorf("the condition is of generation %d, want 1: no handler has seen the size 2", got)
				}
			})
		})
	}
}

// Handlers of objects without a Go type set the generation in the status themselves, also below other fields.
func TestObservedGeneration_SetByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		obj := makeWidget(t, users, "one")
		type U = *unstructured.Unstructured
		handler := func(_ context.Context, req *kopf.Request[U]) error {
			content, generation := req.Object.Object, req.Object.GetGeneration()
			labels := req.Object.GetLabels()
			content["spec"].(map[string]any)["color"] = "by " + labels["color"]
			return unstructured.SetNestedMap(content, map[string]any{
				"observedGeneration": generation,
				"parts":              map[string]any{"a": map[string]any{"observedGeneration": generation}, "b": map[string]any{"observedGeneration": generation - 1}},
				"listeners": []any{map[string]any{"name": "x", "conditions": []any{
					map[string]any{"type": "Ready", "status": "True", "observedGeneration": generation},
				}}},
			}, "status")
		}
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, kopf.For(kopf.Unstructured(v1.GroupVersion.WithKind("Widget"))).OnReconcile("paint", handler)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		for generation, color := range []string{"nobody", "red", "green"} {
			patch(t.Context(), t, users, obj, `{"metadata":{"labels":{"color":"`+color+`"}}}`)
			wait(10 * time.Second)
			now := &unstructured.Unstructured{}
			now.SetGroupVersionKind(v1.GroupVersion.WithKind("Widget"))
			must(t, users.Get(t.Context(), client.ObjectKeyFromObject(obj), now))
			want := int64(generation + 2)
			if now.GetGeneration() != want {
				t.Errorf("%s: generation %d, want %d", color, now.GetGeneration(), want)
			}
			for _, path := range [][]string{{"observedGeneration"}, {"parts", "a", "observedGeneration"}} {
				if got, _, _ := unstructured.NestedInt64(now.Object, append([]string{"status"}, path...)...); got != want {
					t.Errorf("%s: %v is %d, want %d", color, path, got, want)
				}
			}
			listeners, _, _ := unstructured.NestedSlice(now.Object, "status", "listeners")
			ready := listeners[0].(map[string]any)["conditions"].([]any)[0].(map[string]any)
			if ready["observedGeneration"] != want {
				t.Errorf("%s: the condition of the listener is %v, want generation %d", color, ready, want)
			}
			if got, _, _ := unstructured.NestedInt64(now.Object, "status", "parts", "b", "observedGeneration"); got != want-2 {
				t.Errorf("%s: the older generation became %d, want %d", color, got, want-2)
			}
		}
		stop()
		must(t, <-ended)
	})
}
