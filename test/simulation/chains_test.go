package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type raw = *unstructured.Unstructured

// phases records the transitions of status.phase that handlers were called for.
type phases struct {
	mu   sync.Mutex
	seen []string
}

func (p *phases) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, line)
}

func (p *phases) expect(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.seen, want) {
		t.Errorf("handler calls = %q, want %q", p.seen, want)
	}
}

var nextPhase = map[string]string{"A": "B", "B": "C", "C": "C"}

// chain returns a create handler that sets the first phase and a field handler that sets each following phase.
func chain[T client.Object](r *kopf.Resource[T], p *phases, set func(T, string), flush bool) *kopf.Resource[T] {
	finish := func(ctx context.Context, req *kopf.Request[T]) error {
		if flush {
			return req.Flush(ctx)
		}
		return nil
	}
	return r.
		OnCreate("create", func(ctx context.Context, req *kopf.Request[T]) error {
			set(req.Object, "A")
			return finish(ctx, req)
		}).
		OnField("next", "status.phase", func(ctx context.Context, req *kopf.Request[T]) error {
			old, now := req.Field()
			p.note(fmt.Sprint(sprint(old), " to ", sprint(now), "; ", req.Diff))
			set(req.Object, nextPhase[sprint(now)])
			return finish(ctx, req)
		})
}

func setRaw(obj raw, phase string) {
	_ = unstructured.SetNestedField(obj.Object, phase, "status", "phase")
}

func setTyped(obj widget, phase string) { obj.Status.Phase = phase }

// B-13: handlers that set a status field and handlers of the same field form chains.
func TestWatchedStatusFields_OwnChangesAreUpdates(t *testing.T) {
	for _, flush := range []bool{false, true} {
		p := &phases{}
		for name, widgets := range map[string]func() kopf.Option{
			"typed": func() kopf.Option { return chain(kopf.For(&v1.Widget{}), p, setTyped, flush) },
			"unstructured": func() kopf.Option {
				return chain(kopf.For(kopf.Unstructured(v1.GroupVersion.WithKind("Widget"))), p, setRaw, flush)
			},
		} {
			t.Run(fmt.Sprint(name, " flush ", flush), func(t *testing.T) {
				*p = phases{}
				play(t, widgets(), func(t *testing.T, s *scene) {
					wait(time.Minute)
					if got := s.now(t).Status.Phase; got != "C" {
						t.Errorf("phase = %q, want C", got)
					}
					p.expect(t, "<nil> to A; add: \"A\"", "A to B; change: \"A\" -> \"B\"", "B to C; change: \"B\" -> \"C\"")
				})
			})
		}
	}
}

// In a cycle of several reconciles, the handlers of a chain receive the pinned state.
func TestWatchedStatusFields_LongCycle(t *testing.T) {
	p := &phases{}
	widgets := chain(kopf.For(&v1.Widget{}), p, setTyped, false).
		On("slow", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number < 2 {
				return kopf.Temporary(errors.New("busy"), 3*time.Second)
			}
			p.note(string(req.Reason) + " done")
			return nil
		})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Minute)
		p.expect(t, "create done", "<nil> to A; add: \"A\"", "update done", "A to B; change: \"A\" -> \"B\"", "update done", "B to C; change: \"B\" -> \"C\"", "update done")
	}, kopf.WithCheckpoint(0))
}

// Daemons and timers can start a chain.
func TestWatchedStatusFields_WrittenInBackground(t *testing.T) {
	for _, flush := range []bool{false, true} {
		write := func(ctx context.Context, req *kopf.Request[widget]) error {
			if req.Object.Status.Phase != "" {
				return nil
			}
			req.Object.Status.Phase = "B"
			if flush {
				return req.Flush(ctx)
			}
			return nil
		}
		for name, add := range map[string]func(r *kopf.Resource[widget]){
			"timer": func(r *kopf.Resource[widget]) {
				r.Timer("t", daemons.Timer{Interval: time.Hour}, write, kopf.InitialDelay(10*time.Second))
			},
			"daemon": func(r *kopf.Resource[widget]) {
				r.Daemon("d", daemons.Daemon{}, write, kopf.InitialDelay(10*time.Second))
			},
			"reconcile": func(r *kopf.Resource[widget]) { r.OnReconcile("r", write) },
		} {
			t.Run(fmt.Sprint(name, " flush ", flush), func(t *testing.T) {
				p := &phases{}
				widgets := kopf.For(&v1.Widget{}).OnField("next", "status.phase", func(_ context.Context, req *kopf.Request[widget]) error {
					old, now := req.Field()
					p.note(sprint(old) + " to " + sprint(now))
					req.Object.Status.Phase = nextPhase[sprint(now)]
					return nil
				})
				add(widgets)
				play(t, widgets, func(t *testing.T, s *scene) {
					wait(time.Minute)
					p.expect(t, "<nil> to B", "B to C")
				})
			})
		}
	}
}

// The option Field makes update handlers and change handlers watch a field, as OnField does.
func TestWatchedStatusFields_OptionField(t *testing.T) {
	p := &phases{}
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("create", func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Status.Phase = "A"
			return nil
		}).
		OnUpdate("update", func(_ context.Context, req *kopf.Request[widget]) error {
			old, now := req.Field()
			p.note("update " + sprint(old) + " to " + sprint(now))
			return nil
		}, kopf.Field("status.phase", filter.To("A")))
	kopf.OnChange(widgets, "change", func(w widget) string { return w.Status.Phase },
		func(_ context.Context, _ *kopf.Request[widget], old, now string) error {
			p.note("change " + old + " to " + now)
			return nil
		}, kopf.Field("status.phase"))
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Minute)
		p.expect(t, "update <nil> to A", "change  to A")
	})
}

// If no handler watches a field, the operator's own changes of the field are not updates.
func TestOwnChanges_NoUpdateWithoutHandlerForField(t *testing.T) {
	p := &phases{}
	nothing := func(context.Context, *kopf.Request[widget]) error { return nil }
	play(t, kopf.For(&v1.Widget{}).
		OnCreate("create", func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Status.Phase, req.Object.Spec.Size = "A", 7
			req.Object.Labels = map[string]string{"tier": "gold"}
			return nil
		}).
		OnUpdate("update", func(_ context.Context, req *kopf.Request[widget]) error {
			p.note("update")
			return nil
		}).
		OnField("size", "spec.size", func(_ context.Context, req *kopf.Request[widget]) error {
			p.note("size " + string(req.Reason))
			return nil
		}).
		Daemon("daemon", daemons.Daemon{}, nothing, kopf.Field("status.phase", filter.Equal("A"))).
		Timer("timer", daemons.Timer{Interval: time.Hour}, nothing, kopf.Field("status.phase", filter.Equal("A"))).
		OnEvent("event", nothing, kopf.Field("status.phase", filter.Equal("A"))).
		OnReconcile("level", nothing, kopf.Field("status.phase", filter.Equal("A"))).
		OnDelete("delete", nothing, kopf.Field("status.phase", filter.Equal("A"))),
		func(t *testing.T, s *scene) {
			wait(time.Minute)
			p.expect(t, "size create")
		})
}

// SE-51: with the option, all of the operator's own changes are updates, as in kopf.
func TestWithOwnChangesAsUpdates(t *testing.T) {
	for name, add := range map[string]func(r *kopf.Resource[widget], fn kopf.Handler[widget]){
		"create": func(r *kopf.Resource[widget], fn kopf.Handler[widget]) { r.OnCreate("c", fn) },
		"flushed": func(r *kopf.Resource[widget], fn kopf.Handler[widget]) {
			r.OnCreate("c", func(ctx context.Context, req *kopf.Request[widget]) error {
				if err := fn(ctx, req); err != nil {
					return err
				}
				return req.Flush(ctx)
			})
		},
		"timer": func(r *kopf.Resource[widget], fn kopf.Handler[widget]) {
			r.Timer("t", daemons.Timer{Interval: time.Hour}, fn, kopf.InitialDelay(10*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &phases{}
			widgets := kopf.For(&v1.Widget{}, kopf.WithOwnChangesAsUpdates()).
				OnUpdate("update", func(_ context.Context, req *kopf.Request[widget]) error {
					p.note(strings.Join([]string{sprint(req.Old.Spec.Size), sprint(req.Object.Spec.Size), req.Diff.String()}, "; "))
					if req.Object.Spec.Size < 4 {
						req.Object.Spec.Size++
					}
					return nil
				})
			add(widgets, func(_ context.Context, req *kopf.Request[widget]) error {
				req.Object.Spec.Size = 2
				return nil
			})
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(time.Minute)
				p.expect(t, "1; 2; change spec.size: 1 -> 2", "2; 3; change spec.size: 2 -> 3", "3; 4; change spec.size: 3 -> 4")
			})
		})
	}
}

// Chains also work for objects that are too large for a baseline. Their old state is unknown.
func TestWatchedStatusFields_LargeObjects(t *testing.T) {
	p := &phases{}
	widgets := chain(kopf.For(&v1.Widget{}), p, setTyped, false).
		Timer("t", daemons.Timer{Interval: time.Hour}, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Status.Phase = "A"
			return nil
		}, kopf.InitialDelay(30*time.Second))
	large := &v1.Widget{Spec: v1.WidgetSpec{Size: 1, Color: strings.Repeat("x", 250<<10)}}
	playOn(t, func(*rest.Config) {}, large, widgets, func(t *testing.T, s *scene) {
		wait(20 * time.Second)
		if got := s.now(t).Status.Phase; got != "C" {
			t.Errorf("phase after the creation = %q, want C", got)
		}
		wait(time.Minute)
		if got := s.now(t).Status.Phase; got != "C" {
			t.Errorf("phase after the timer = %q, want C", got)
		}
		if n := len(p.seen); n != 6 {
			t.Errorf("number of transitions = %d, want 6: %q", n, p.seen)
		}
	})
}
