package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A scene is a running operator with one widget.
type scene struct {
	config *rest.Config
	users  client.Client
	obj    widget
}

// play runs an operator in virtual time on a widget that is made before it is started.
func play(t *testing.T, widgets *kopf.Resource[widget], act func(t *testing.T, s *scene), more ...kopf.Option) {
	t.Helper()
	playOn(t, func(*rest.Config) {}, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, act, more...)
}

func playOn(t *testing.T, alter func(*rest.Config), obj widget, widgets *kopf.Resource[widget], act func(t *testing.T, s *scene), more ...kopf.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		alter(config)
		obj := obj.DeepCopy()
		obj.Namespace, obj.Name = namespace, "one"
		must(t, users.Create(t.Context(), obj))
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, append([]kopf.Option{widgets}, more...)...))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		act(t, &scene{config, users, obj})
		stop()
		must(t, <-ended)
	})
}

func (s *scene) now(t *testing.T) widget {
	t.Helper()
	obj := &v1.Widget{}
	must(t, s.users.Get(t.Context(), client.ObjectKeyFromObject(s.obj), obj))
	return obj
}

func (s *scene) patch(t *testing.T, text string) {
	t.Helper()
	patch(t.Context(), t, s.users, s.obj, text)
}

func (s *scene) patchStatus(t *testing.T, text string) {
	t.Helper()
	must(t, s.users.Status().Patch(t.Context(), s.obj.DeepCopy(), rawPatch(text)))
}

func wait(pause time.Duration) { <-time.After(pause) }

func conditionsOf(obj widget) (all []string) {
	for _, c := range obj.Status.Conditions {
		all = append(all, c.Type+"="+string(c.Status))
	}
	return all
}

func sprint(v any) string { return fmt.Sprint(v) }

func rawPatch(text string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(text))
}

// A Flush does not make us overwrite what others have written meanwhile.
func TestFlushKeepsConditionsOfOthersDaemon(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).Timer("t", time.Hour, func(ctx context.Context, req *kopf.Request[widget]) error {
		wait(2 * time.Second) // the other one writes
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
			t.Errorf("the conditions are %v", got)
		}
	})
}

// The same in a handler.
func TestFlushKeepsConditionsOfOthersHandler(t *testing.T) {
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
			t.Errorf("the conditions are %v", got)
		}
	})
}

// Nor lists that users have edited before it.
func TestFlushKeepsListsOfOthers(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).Timer("t", time.Hour, func(ctx context.Context, req *kopf.Request[widget]) error {
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
			t.Errorf("the tags are %v", got)
		}
	})
}

// What is set back after a Flush is written, too.
func TestFlushThereAndBack(t *testing.T) {
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"timer":   kopf.For(&v1.Widget{}).Timer("t", time.Hour, thereAndBack),
		"handler": kopf.For(&v1.Widget{}).OnCreate("t", thereAndBack),
		"level":   kopf.For(&v1.Widget{}).OnReconcile("t", thereAndBack),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(10 * time.Second)
				if got := s.now(t).Status.Phase; got != "" {
					t.Errorf("the phase is %q, and was taken back", got)
				}
			})
		})
	}
}

func thereAndBack(ctx context.Context, req *kopf.Request[widget]) error {
	was := req.Object.Status.Phase
	req.Object.Status.Phase = "Working"
	if err := req.Flush(ctx); err != nil {
		return err
	}
	wait(time.Second)
	req.Object.Status.Phase = was
	return nil
}

// A level-triggered handler is not called again by its own Flush.
func TestFlushDoesNotCallLevelsAgain(t *testing.T) {
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
			t.Errorf("it was called %d times", n)
		}
	})
}

// B-13: edits of timers during a creation that takes several passes are no updates.
func TestEditsDuringCreationAreNoUpdates(t *testing.T) {
	var updates atomic.Int64
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("c", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("not yet"), 5*time.Second)
			}
			return nil
		}).
		OnUpdate("u", func(_ context.Context, req *kopf.Request[widget]) error {
			updates.Add(1)
			t.Logf("update: %v", req.Diff)
			return nil
		}).
		Timer("t", time.Hour, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Labels = map[string]string{"mine": "yes"}
			return nil
		}, kopf.InitialDelay(time.Second))
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if n := updates.Load(); n != 0 {
			t.Errorf("the edit of the timer came as %d updates", n)
		}
	})
}

// B-13, B-31: nor those of objects that are too large for a baseline.
func TestEditsOfLargeObjectsAreNoUpdates(t *testing.T) {
	var updates atomic.Int64
	widgets := kopf.For(&v1.Widget{}).
		OnUpdate("u", func(_ context.Context, req *kopf.Request[widget]) error {
			updates.Add(1)
			t.Logf("update: old known: %t, %d items, old labels %v", req.OldKnown(), len(req.Diff), req.Old)
			return nil
		}).
		Timer("t", time.Hour, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Labels = map[string]string{"mine": "yes"}
			return nil
		}, kopf.InitialDelay(10*time.Second))
	large := &v1.Widget{Spec: v1.WidgetSpec{Size: 1, Color: strings.Repeat("x", 250<<10)}}
	playOn(t, func(*rest.Config) {}, large, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if n := updates.Load(); n != 0 {
			t.Errorf("the edit of the timer came as %d updates", n)
		}
	})
}

// TIM-06: two timers that edit the essence at the same time do not take each other for somebody else.
func TestIdleIsNotResetByTwoTimers(t *testing.T) {
	var idle atomic.Int64
	edit := func(label string) kopf.Handler[widget] {
		return func(_ context.Context, req *kopf.Request[widget]) error {
			wait(100 * time.Millisecond) // both are at it
			if req.Object.Labels == nil {
				req.Object.Labels = map[string]string{}
			}
			req.Object.Labels[label] = strconv.FormatInt(time.Now().UnixNano(), 10)
			return nil
		}
	}
	widgets := kopf.For(&v1.Widget{}).
		Timer("a", time.Second, edit("a")).
		Timer("b", time.Second, edit("b")).
		Timer("idle", 0, func(context.Context, *kopf.Request[widget]) error {
			idle.Add(1)
			return nil
		}, kopf.Idle(5*time.Second))
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(time.Minute)
		if idle.Load() == 0 {
			t.Error("the idle timer was never called, and nobody but timers has edited the object")
		}
	})
}

// B-41: changes of users are noticed also after the answer to an edit was lost, and the worker has seen it before it was
// repeated.
func TestTouchesAfterALostAnswer(t *testing.T) {
	var failing atomic.Int64
	loss := &losing{}
	widgets := kopf.For(&v1.Widget{}).
		OnUpdate("u", func(context.Context, *kopf.Request[widget]) error { return nil }).
		Timer("edits", time.Hour, func(_ context.Context, req *kopf.Request[widget]) error {
			loss.armed.Store(true)
			req.Object.Labels = map[string]string{"mine": "yes"}
			return nil
		}, kopf.InitialDelay(5*time.Second)).
		Timer("fails", time.Minute, func(context.Context, *kopf.Request[widget]) error {
			failing.Add(1)
			return kopf.Permanent(errors.New("never"))
		})
	alter := func(config *rest.Config) { loss.RoundTripper = config.Transport; config.Transport = loss }
	playOn(t, alter, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
		wait(30 * time.Second)
		if loss.lost.Load() != 1 || failing.Load() != 1 {
			t.Fatalf("%d answers were lost, and it has failed %d times", loss.lost.Load(), failing.Load())
		}
		s.patch(t, `{"spec":{"size":2}}`)
		wait(30 * time.Second)
		if failing.Load() != 2 {
			t.Errorf("B-41: the failed timer was called %d times after a change", failing.Load()-1)
		}
	})
}

// losing loses the answer to one patch of labels.
type losing struct {
	http.RoundTripper
	armed atomic.Bool
	lost  atomic.Int64
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return l.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil && bytes.Contains(body, []byte(`"mine"`)) && !bytes.Contains(body, []byte("last-handled")) && l.armed.CompareAndSwap(true, false) && l.lost.CompareAndSwap(0, 1) {
		return nil, errors.New("the answer is lost")
	}
	return response, err
}

// The own write of a watched condition is not taken for one that the server has dropped.
func TestOnConditionKnowsWhatItWas(t *testing.T) {
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
			t.Errorf("the transitions were %q, want %q", seen, want)
		}
	})
}

// A handler that was skipped, as the one before it has failed, is not Running for ever.
func TestReportsOfSkippedHandlers(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("First", "Second")).
		OnCreate("first", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("not yet"), time.Second)
			}
			return kopf.Permanent(errors.New("no"))
		}, kopf.ReportsCondition("First")).
		OnCreate("second", func(context.Context, *kopf.Request[widget]) error { return nil },
			kopf.After("first"), kopf.ReportsCondition("Second"))
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Minute)
		if got := conditionsOf(s.now(t)); !slices.Equal(got, []string{"First=False", "Second=False"}) {
			t.Errorf("the conditions are %v", got)
		}
	})
}

// SE-53: a handler that begins when its object is gone already is told so.
func TestCancelOnDeleteOfObjectsThatAreGone(t *testing.T) {
	var cause atomic.Value
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("quick", func(ctx context.Context, req *kopf.Request[widget]) error {
			must(t, req.Client.Delete(ctx, req.Object))
			wait(50 * time.Millisecond)
			return nil
		}).
		OnCreate("long", func(ctx context.Context, _ *kopf.Request[widget]) error {
			select {
			case <-ctx.Done():
				cause.Store("ended")
			case <-time.After(time.Minute):
				cause.Store("went on")
			}
			return ctx.Err()
		}, kopf.CancelOnDelete())
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(2 * time.Minute)
		if got := cause.Load(); got != nil && got != "ended" {
			t.Errorf("the handler %v", got)
		}
	})
}

// Only conditions, no handlers: written once, and nothing afterwards.
func TestConditionsWithoutHandlersAreQuiet(t *testing.T) {
	for name, widgets := range map[string]*kopf.Resource[widget]{
		"timer": kopf.For(&v1.Widget{}, kopf.WithConditions("A", "Ready")).Timer("t", time.Minute, func(_ context.Context, req *kopf.Request[widget]) error {
			req.Conditions().True("A", "Fine", "")
			return nil
		}),
		"level": kopf.For(&v1.Widget{}, kopf.WithConditions("A", "Ready")).OnReconcile("t", func(context.Context, *kopf.Request[widget]) error { return nil }, kopf.ReportsCondition("A")),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, widgets, func(t *testing.T, s *scene) {
				wait(10 * time.Second)
				first := s.now(t)
				wait(10 * time.Minute)
				last := s.now(t)
				if first.ResourceVersion != last.ResourceVersion || !slices.Contains(conditionsOf(last), "Ready=True") {
					t.Errorf("from version %s to %s: %v", first.ResourceVersion, last.ResourceVersion, conditionsOf(last))
				}
				s.patch(t, `{"spec":{"size":2}}`)
				wait(10 * time.Minute)
				t.Logf("%+v", s.now(t).Status.Conditions)
			})
		})
	}
}

// B-60: that a declared condition is Unknown is not written over what somebody else has said meanwhile.
func TestDeclaredConditionsDoNotOverwrite(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("A")).OnCreate("c", func(context.Context, *kopf.Request[widget]) error {
		wait(2 * time.Second)
		return nil
	})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Second)
		s.patchStatus(t, `{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`)
		wait(10 * time.Second)
		if got := conditionsOf(s.now(t)); !slices.Equal(got, []string{"A=True"}) {
			t.Errorf("the conditions are %v", got)
		}
	})
}

// The same between a daemon, which tells at once, and the first pass, which declares. (It is a race: there are many.)
func TestDaemonsAreFasterThanDeclarations(t *testing.T) {
	for range 20 {
		widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("A", "Ready")).Daemon("d", func(ctx context.Context, req *kopf.Request[widget]) error {
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
				t.Errorf("the conditions are %v", got)
			}
		})
	}
}

// B-13: what is watched, and flushed, is no update, as if it were written at the end.
func TestFlushedFieldsAreNoUpdates(t *testing.T) {
	for name, flush := range map[string]bool{"at the end": false, "flushed": true} {
		for kind, add := range map[string]func(*kopf.Resource[widget], kopf.Handler[widget]){
			"timer": func(r *kopf.Resource[widget], h kopf.Handler[widget]) {
				r.Timer("t", time.Hour, h, kopf.InitialDelay(10*time.Second))
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
					if calls.Load() != 0 {
						t.Errorf("the own edit has come as %d updates", calls.Load())
					}
				})
			})
		}
	}
}

// Nothing is flushed by abandoned daemons when the operator has ended.
func TestNothingIsFlushedAfterTheEnd(t *testing.T) {
	flushed := make(chan error, 1)
	ended := make(chan struct{})
	widgets := kopf.For(&v1.Widget{}).Daemon("d", func(_ context.Context, req *kopf.Request[widget]) error {
		<-ended
		req.Object.Status.Phase = "late"
		flushed <- req.Flush(context.Background())
		return nil
	}, kopf.CancellationTimeout(time.Second))
	synctest.Test(t, func(t *testing.T) {
		ended = make(chan struct{})
		flushed = make(chan error, 1)
		config, scheme, users := newWorld(t)
		obj := makeWidget(t, users, "one")
		live(t, config, scheme, 10*time.Second, widgets)
		close(ended)
		err := <-flushed
		now := &v1.Widget{}
		must(t, users.Get(t.Context(), client.ObjectKeyFromObject(obj), now))
		if err == nil || now.Status.Phase != "" {
			t.Errorf("it was written after the end: %q (%v)", now.Status.Phase, err)
		}
	})
}

// PEER-53: what is filtered out by what has happened in the pause is not started at its end.
func TestPausesEndWithFilters(t *testing.T) {
	var bad, calls atomic.Int64
	widgets := kopf.For(&v1.Widget{}).Timer("t", 10*time.Second, func(_ context.Context, req *kopf.Request[widget]) error {
		calls.Add(1)
		if req.Object.Labels["off"] == "yes" {
			bad.Add(1)
		}
		return nil
	}, kopf.Label("off", kopf.Absent))
	peers := &muxed{peers: apiserver.New(apiserver.Resource{
		GroupVersion: schema.GroupVersion{Group: "kopf.dev", Version: "v1"}, Kind: "KopfPeering", Plural: "kopfpeerings",
	})}
	alter := func(config *rest.Config) { peers.widgets = config.Transport; config.Transport = peers }
	playOn(t, alter, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
		dynamic, err := client.New(s.config, client.Options{Mapper: fixedMapper()})
		must(t, err)
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": map[string]any{"namespace": namespace, "name": "default"},
		}}
		must(t, dynamic.Create(t.Context(), object))
		wait(15 * time.Second)
		freeze := func(text string) {
			must(t, dynamic.Patch(t.Context(), object.DeepCopy(), rawPatch(text)))
			wait(15 * time.Second)
		}
		freeze(`{"status":{"other":{"priority":100,"lifetime":600,"lastseen":"2000-01-01T00:00:15.000000"}}}`)
		s.patch(t, `{"metadata":{"labels":{"off":"yes"}}}`)
		wait(30 * time.Second)
		t.Log("paused")
		mark := calls.Load()
		wait(30 * time.Second)
		if calls.Load() != mark {
			t.Fatal("it is not paused")
		}
		freeze(`{"status":{"other":null}}`)
		if bad.Load() != 0 {
			t.Errorf("the timer was called %d times for an object that does not pass its filter", bad.Load())
		}
	}, kopf.WithPeering(peering.Options{Namespaces: []string{namespace}, Identity: "one"})) // or it would ask DNS, which no bubble can bear
}

func fixedMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Group: "kopf.dev", Version: "v1", Kind: "KopfPeering"}, meta.RESTScopeNamespace)
	return m
}

// muxed is a server with the peerings beside the widgets.
type muxed struct {
	widgets http.RoundTripper
	peers   *apiserver.Server
}

func (m *muxed) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/apis/kopf.dev") {
		return m.peers.RoundTrip(r)
	}
	return m.widgets.RoundTrip(r)
}

// What a handler says last, after a Flush, is not lost to what is reported about it.
func TestFlushAndReports(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}, kopf.WithConditions("Ready", "Created", "Filled")).
		OnCreate("create", func(_ context.Context, req *kopf.Request[widget]) error {
			if req.Attempt.Number == 0 {
				return errors.New("busy")
			}
			return nil
		}, kopf.Backoff(3*time.Second), kopf.ReportsCondition("Created")).
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
			t.Errorf("the conditions are %v, not %v", got, want)
		}
	})
}
