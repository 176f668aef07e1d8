package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type (
	widget  = *v1.Widget
	request = kopf.Request[widget]
	thing   = *unstructured.Unstructured
)

// scenario is an operator and the steps of a test.
type scenario struct {
	name        string
	newScenario func(w *world) kopftest.Scenario
	// pairs enables plans with two faults, which only short scenarios allow.
	pairs bool
	// limits maps plans with known violations to the documented reason.
	limits map[string]string
}

// flushFails is the limit of plans in which the first request of a handler fails: the handler is called again after later handlers, which have not seen its change.
const flushFails = "the handler fails with its request, and is called again after a handler that reads its change"

// world is the external state. It contains the last input of each handler for each object. A second call with the same input does not change it.
type world struct {
	mu     sync.Mutex
	inputs map[string]string
}

func (w *world) record(handler string, obj client.Object, input any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inputs[handler+" of "+obj.GetName()] = fmt.Sprint(input)
}

func (w *world) hasRecord(handler string, obj client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.inputs[handler+" of "+obj.GetName()]
	return ok
}

// recordingHandler returns a handler that only records the spec.
func (w *world) recordingHandler(handler string) kopf.Handler[widget] {
	return w.failingHandler(handler, 0)
}

// failingHandler returns a handler whose first attempts fail.
func (w *world) failingHandler(handler string, times int) kopf.Handler[widget] {
	return func(_ context.Context, req *request) error {
		if req.Attempt.Number < times {
			return kopf.Temporary(errors.New("not yet"), 2*time.Second)
		}
		w.record(handler, req.Object, specOf(req.Object))
		return nil
	}
}

func specOf(obj widget) string { return fmt.Sprintf("%+v", obj.Spec) }

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}

func one() widget {
	return &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}, Spec: v1.WidgetSpec{Size: 1, Color: "red"}}
}

// step is one step of a scenario.
type step = func(testing.TB, *kopftest.Cluster)

func create(obj client.Object) step {
	return func(t testing.TB, c *kopftest.Cluster) { c.Create(t, obj.DeepCopyObject().(client.Object)) }
}

func edit(change func(widget)) step {
	return func(t testing.TB, c *kopftest.Cluster) { kopftest.Edit(t, c, one(), change) }
}

func newConfigMap(name string, color ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"color": strings.Join(color, "")}}
}

// paint changes the color of the ConfigMap "source".
func paint(color string) step {
	return func(t testing.TB, c *kopftest.Cluster) {
		kopftest.Edit(t, c, newConfigMap("source"), func(source *corev1.ConfigMap) { source.Data = map[string]string{"color": color} })
	}
}

func resize(size int) step { return edit(func(w widget) { w.Spec.Size = size }) }

func remove(t testing.TB, c *kopftest.Cluster) { c.Delete(t, one()) }

func patchStatus(text string) step {
	return func(t testing.TB, c *kopftest.Cluster) {
		if err := c.Client.Status().Patch(t.Context(), one(), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
}

// together runs steps with pauses, without waiting until the operator is quiet.
func together(pause time.Duration, steps ...step) step {
	return func(t testing.TB, c *kopftest.Cluster) {
		for i, s := range steps {
			if i > 0 {
				<-time.After(pause)
			}
			s(t, c)
		}
	}
}

// newScenario returns a scenario that first creates a widget and then runs the steps.
func (w *world) newScenario(resource func() *kopf.Resource[widget], options []kopf.Option, steps ...step) kopftest.Scenario {
	return kopftest.Scenario{
		Given:         kopftest.Given{Scheme: scheme()},
		Operator:      func() []kopf.Option { return append([]kopf.Option{resource()}, options...) },
		Steps:         append([]step{create(one())}, steps...),
		ExternalState: func() any { return w.copied() },
	}
}

// trackedSource returns a scenario with a handler that copies a tracked ConfigMap to a child.
func (w *world) trackedSource(resource func() *kopf.Resource[widget]) kopftest.Scenario {
	return w.newScenario(func() *kopf.Resource[widget] {
		return resource().OnReconcile("copy", func(ctx context.Context, req *request) error {
			source := newConfigMap("source")
			if err := req.Track(ctx, source); client.IgnoreNotFound(err) != nil {
				return err
			}
			_, err := children.Of(req.Object, req.Client, children.FieldOwner("test")).Apply(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "copy"}, Data: map[string]string{"color": source.Data["color"] + "!"},
			})
			return err
		})
	}, nil, create(newConfigMap("source", "red")), paint("blue"), together(time.Second, paint("green"), resize(2), paint("white")),
		func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newConfigMap("source")) }, create(newConfigMap("source", "gray")))
}

func (w *world) copied() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.inputs)
}

func widgets() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}) }

var scenarios = []scenario{
	{name: "one-handler", pairs: true, newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] { return widgets().OnCreate("a", w.recordingHandler("a")) }, nil)
	}},
	{name: "create", pairs: true, newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).OnCreate("b", w.failingHandler("b", 2)).OnCreate("c", func(_ context.Context, req *request) error {
				req.Object.Status.Phase = "made"
				w.record("c", req.Object, specOf(req.Object))
				return nil
			})
		}, nil)
	}},
	{name: "update-during-cycle", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().On("a", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, w.recordingHandler("a")).
				OnUpdate("b", w.failingHandler("b", 1)).
				OnUpdate("c", w.recordingHandler("c"))
		}, nil, resize(2), together(time.Second, resize(3), resize(4)), together(500*time.Millisecond, resize(5), resize(6), resize(7)))
	}},
	{name: "taken-back", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnUpdate("b", func(_ context.Context, req *request) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), 3*time.Second)
				}
				w.record("b", req.Object, "called")
				return nil
			}).OnUpdate("a", func(_ context.Context, req *request) error {
				w.record("a", req.Object, "called")
				return nil
			})
		}, nil, resize(2), together(time.Second, resize(3), resize(2)), resize(4))
	}},
	{name: "delete", pairs: true, newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).OnDelete("d", w.failingHandler("d", 1)).OnDelete("e", w.recordingHandler("e"))
		}, nil, remove)
	}},
	{name: "delete-during-create", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", func(context.Context, *request) error {
				return kopf.Temporary(errors.New("not yet"), 2*time.Second)
			}, kopf.Retries(20)).OnDelete("d", w.recordingHandler("d"))
		}, nil, together(3*time.Second, resize(2), remove))
	}},
	{name: "optional-delete", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).
				OnDelete("d", func(context.Context, *request) error { return nil }, kopf.Optional())
		}, nil, resize(2), remove)
	}},
	{name: "sub-handlers", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().On("all", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *request) error {
				for i, tag := range append([]string{"first"}, req.Object.Spec.Tags...) {
					req.Sub(tag, w.failingHandler("all/"+tag, i%2))
				}
				w.record("all", req.Object, specOf(req.Object))
				return nil
			})
		}, nil, edit(func(w widget) { w.Spec.Tags = []string{"x", "y"} }))
	}},
	{name: "after", newScenario: func(w *world) kopftest.Scenario {
		follows := func(handler, other string) kopf.Handler[widget] {
			return func(_ context.Context, req *request) error {
				order := "after " + other
				if !w.hasRecord(other, req.Object) {
					order = "before " + other
				}
				w.record(handler, req.Object, order)
				return nil
			}
		}
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().
				OnCreate("c", follows("c", "b"), kopf.After("b")).
				OnCreate("b", follows("b", "a"), kopf.After("a")).
				OnCreate("a", w.failingHandler("a", 1))
		}, nil)
	}},
	{name: "status-field", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).OnField("phase", "status.phase", func(_ context.Context, req *request) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Second)
				}
				w.record("phase", req.Object, req.Object.Status.Phase)
				return nil
			})
		}, nil, patchStatus(`{"status":{"phase":"x"}}`), together(500*time.Millisecond, patchStatus(`{"status":{"phase":"y"}}`), resize(2)))
	}},
	{name: "daemon-and-timer", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().
				On("a", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *request) error {
					w.record("a", req.Object, req.Object.Spec.Size)
					return nil
				}).
				Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *request) error {
					req.Object.Spec.Color = "blue"
					req.Object.Status.Log = []string{"daemon"}
					return nil
				}, kopf.InitialDelay(time.Second)).
				Timer("timer", daemons.Timer{Interval: 5 * time.Minute}, func(_ context.Context, req *request) error {
					req.Object.Spec.Tags = []string{"timer"}
					req.Object.Status.Phase = "timed"
					return nil
				}).
				OnDelete("d", w.recordingHandler("d"))
		}, nil, waits(time.Minute), resize(2), remove)
	}},
	{name: "event-handler", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnEvent("seen", func(_ context.Context, req *request) error {
				if req.Object.Spec.Size == 2 && req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Second)
				}
				req.Object.Status.Phase = fmt.Sprintf("size %d", req.Object.Spec.Size)
				return nil
			}, kopf.WriteChanges(), kopf.Retries(3)).
				On("a", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, w.recordingHandler("a")).
				OnDelete("d", w.recordingHandler("d"))
		}, nil, resize(2), resize(3), remove)
	}},
	{name: "children", newScenario: func(w *world) kopftest.Scenario {
		sc := w.newScenario(func() *kopf.Resource[widget] {
			return widgets().Owns(&corev1.ConfigMap{}).OnReconcile("children", func(ctx context.Context, req *request) error {
				child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Object.Name}, Data: map[string]string{"size": fmt.Sprint(req.Object.Spec.Size)}}
				_, err := children.Of(req.Object, req.Client, children.FieldOwner("test")).Apply(ctx, child)
				return err
			})
		}, nil, resize(2), func(t testing.TB, c *kopftest.Cluster) {
			c.Delete(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}})
		}, func(t testing.TB, c *kopftest.Cluster) {
			kopftest.Edit(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}}, func(m *corev1.ConfigMap) { m.Data["size"] = "0" })
		})
		return sc
	}},
	{name: "tracked-object", newScenario: func(w *world) kopftest.Scenario {
		return w.trackedSource(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).Owns(&corev1.ConfigMap{})
		})
	}},
	{name: "watched-objects", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			toWidget := func(_ context.Context, source client.Object) []reconcile.Request {
				if source.GetName() != "source" {
					return nil
				}
				return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(one())}}
			}
			return widgets().Watches(&corev1.ConfigMap{}, toWidget).OnReconcile("color", func(ctx context.Context, req *request) error {
				source := newConfigMap("source")
				if err := req.Client.Get(ctx, client.ObjectKeyFromObject(source), source); client.IgnoreNotFound(err) != nil {
					return err
				}
				req.Object.Status.Phase = "color " + source.Data["color"]
				return nil
			})
		}, nil, create(newConfigMap("source", "red")), paint("blue"), together(time.Second, paint("green"), paint("white")),
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newConfigMap("source")) })
	}},
	{name: "children-set", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().Owns(&corev1.ConfigMap{}).OnReconcile("parts", func(ctx context.Context, req *request) error {
				var parts []client.Object
				for i := range req.Object.Spec.Size {
					parts = append(parts, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("part-%d", i)}, Data: map[string]string{"of": fmt.Sprint(req.Object.Spec.Size)}})
				}
				_, err := children.Of(req.Object, req.Client, children.FieldOwner("test")).Set("parts", &corev1.ConfigMap{}).ApplyInOrder(ctx, parts...)
				return err
			})
		}, nil, resize(3), func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newConfigMap("part-1")) }, together(500*time.Millisecond, resize(2), resize(1)), resize(0))
	}},
	{name: "flush", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("first", func(_ context.Context, req *request) error {
				req.Object.Spec.Color = "blue"
				return nil
			}).On("slow", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(ctx context.Context, req *request) error {
				for _, phase := range []string{"one", "two", "three"} {
					req.Object.Status.Phase = phase
					if err := req.Flush(ctx); err != nil {
						return err
					}
					<-time.After(100 * time.Millisecond)
				}
				w.record("slow", req.Object, req.Object.Spec.Size)
				return nil
			})
		}, nil, resize(2))
	}},
	{name: "checkpoint", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).OnCreate("b", w.recordingHandler("b")).OnCreate("c", w.failingHandler("c", 1)).OnDelete("d", w.recordingHandler("d"))
		}, []kopf.Option{kopf.WithCheckpoint(0)}, remove)
	}},
	{name: "results", newScenario: func(w *world) kopftest.Scenario {
		return w.unstructured(func() *kopf.Resource[thing] {
			return kopf.For(kopf.Unstructured(v1.GroupVersion.WithKind("Widget"))).
				OnCreate("first", func(_ context.Context, req *kopf.Request[thing]) error {
					req.SetResult(map[string]any{"made": true})
					return nil
				}).
				OnUpdate("second", func(_ context.Context, req *kopf.Request[thing]) error {
					size, _, _ := unstructured.NestedInt64(req.Object.Object, "spec", "size")
					req.SetResult(size)
					return nil
				})
		}, nil)
	}},
	{name: "conditions", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			return kopf.For(&v1.Widget{}, kopf.WithConditions("Ready", "Made")).
				OnCreate("make", w.failingHandler("make", 1), kopf.ReportCondition("Made")).
				OnCondition("seen", "Made", func(_ context.Context, req *request) error {
					w.record("seen", req.Object, "called")
					return nil
				}).
				OnUpdate("ready", func(_ context.Context, req *request) error {
					req.Conditions().Set(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Resized"})
					return nil
				})
		}, nil, resize(2))
	}},
	{name: "observed-generation", limits: map[string]string{
		"lost@1": flushFails, "unavailable@1": flushFails, "lost@7": flushFails, "unavailable@7": flushFails, "lost@22": flushFails, "unavailable@22": flushFails,
	}, newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] {
			root := conditions.Root{Of: []string{"Made", "Painted", "Synced"}, Fresh: true}
			return kopf.For(&v1.Widget{}, kopf.WithConditions("Painted", "Synced"), kopf.WithRootCondition(root)).
				On("make", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, w.failingHandler("make", 1), kopf.ReportCondition("Made")).
				On("paint", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(ctx context.Context, req *request) error {
					req.Conditions().True("Painted", "Painted", "")
					if err := req.Flush(ctx); err != nil {
						return err
					}
					req.Object.Spec.Color = fmt.Sprintf("color %d", req.Object.Spec.Size)
					return nil
				}).
				OnReconcile("sync", func(_ context.Context, req *request) error {
					req.Conditions().True("Synced", "Synced", "")
					req.Object.Spec.Tags = []string{fmt.Sprint(req.Object.Spec.Size)}
					return nil
				})
		}, nil, resize(2), together(500*time.Millisecond, resize(3), resize(4)))
	}},
	{name: "unstructured", newScenario: func(w *world) kopftest.Scenario {
		return w.unstructured(func() *kopf.Resource[thing] { return w.things() }, nil)
	}},
	{name: "chain", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] { return w.chain(false) }, nil, resize(2))
	}},
	{name: "chain-with-flush", newScenario: func(w *world) kopftest.Scenario {
		return w.newScenario(func() *kopf.Resource[widget] { return w.chain(true) }, nil, resize(2))
	}},
	{name: "status-store", limits: map[string]string{
		"crash-after@8":  "the end of a cycle takes two requests: the records are removed before the baseline is stored",
		"crash-after@16": "the records are removed before the baseline is stored, as for crash-after@8",
	}, newScenario: func(w *world) kopftest.Scenario {
		return w.unstructured(func() *kopf.Resource[thing] { return w.things() }, []kopf.Option{kopf.WithProgress(progress.Status(""))})
	}},
	{name: "status-baseline", newScenario: func(w *world) kopftest.Scenario {
		return w.unstructured(func() *kopf.Resource[thing] { return w.things() },
			[]kopf.Option{kopf.WithProgress(progress.Status("")), kopf.WithBaseline(progress.StatusBaseline(""))})
	}},
	{name: "resume", newScenario: func(w *world) kopftest.Scenario {
		sc := w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnResume("resume", func(_ context.Context, req *request) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Second)
				}
				w.record("resume", req.Object, "called")
				return nil
			}).OnUpdate("update", w.recordingHandler("update"))
		}, nil)
		handled := one()
		handled.Annotations = map[string]string{"kopf.zalando.org/last-handled-configuration": `{"spec":{"size":1,"color":"red"}}` + "\n"}
		sc.Given.Objects = []client.Object{handled}
		sc.Steps = []step{resize(2)}
		return sc
	}},
	{name: "created-again", newScenario: func(w *world) kopftest.Scenario {
		again := one()
		again.Spec.Size = 9
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.failingHandler("a", 1)).OnUpdate("u", w.recordingHandler("u"))
		}, nil, together(0, remove, create(again)), resize(2))
	}},
	{name: "created-again-with-finalizer", newScenario: func(w *world) kopftest.Scenario {
		again := one()
		again.Spec.Size = 9
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().OnCreate("a", w.recordingHandler("a")).OnDelete("d", w.recordingHandler("d"))
		}, nil, remove, create(again), remove)
	}},
	{name: "large-object", newScenario: func(w *world) kopftest.Scenario {
		large := func(color string) step {
			return edit(func(w widget) { w.Spec.Color = strings.Repeat(color, 250_000) })
		}
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().On("a", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *request) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), time.Second)
				}
				w.record("a", req.Object, req.Object.Spec.Color[:1])
				return nil
			})
		}, nil, large("a"), together(500*time.Millisecond, large("b"), large("c")))
	}},
	{name: "restored", limits: map[string]string{
		"crash-after@2": "a process does not know the last-handled configurations that only its predecessor has observed",
	}, newScenario: func(w *world) kopftest.Scenario {
		var old widget
		return w.newScenario(func() *kopf.Resource[widget] {
			return widgets().On("a", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, w.recordingHandler("a"))
		}, nil, func(t testing.TB, c *kopftest.Cluster) {
			old = one()
			c.Get(t, old)
		}, resize(2), func(t testing.TB, c *kopftest.Cluster) {
			kopftest.Edit(t, c, one(), func(w widget) { w.Spec, w.Annotations = old.Spec, old.Annotations })
		})
	}},
}

func waits(pause time.Duration) step {
	return func(testing.TB, *kopftest.Cluster) { <-time.After(pause) }
}

// things returns handlers for widgets without a Go type.
func (w *world) things() *kopf.Resource[thing] {
	saw := func(handler string, failures int) kopf.Handler[thing] {
		return func(_ context.Context, req *kopf.Request[thing]) error {
			if req.Attempt.Number < failures {
				return kopf.Temporary(errors.New("not yet"), 2*time.Second)
			}
			w.record(handler, req.Object, req.Object.Object["spec"])
			return unstructured.SetNestedField(req.Object.Object, handler, "status", "phase")
		}
	}
	return kopf.For(kopf.Unstructured(v1.GroupVersion.WithKind("Widget"))).
		OnCreate("create", saw("create", 1)).OnUpdate("update", saw("update", 1)).OnUpdate("other", saw("other", 0)).OnDelete("delete", saw("delete", 1))
}

func (w *world) unstructured(resource func() *kopf.Resource[thing], options []kopf.Option) kopftest.Scenario {
	sc := w.newScenario(nil, nil, resize(2), together(500*time.Millisecond, resize(3), resize(4)), remove)
	sc.Operator = func() []kopf.Option { return append([]kopf.Option{resource()}, options...) }
	return sc
}

// chain returns handlers that move a widget through its phases. The first handler of a phase sets the next phase while the second handler still
// fails.
func (w *world) chain(flushes bool) *kopf.Resource[widget] {
	moves := func(handler, phase string) kopf.Handler[widget] {
		return func(ctx context.Context, req *request) error {
			w.record(handler, req.Object, specOf(req.Object))
			req.Object.Status.Phase = phase
			if flushes {
				return req.Flush(ctx)
			}
			return nil
		}
	}
	return widgets().
		OnCreate("start", moves("start", "starting")).
		OnUpdate("first", moves("first", "ready"), kopf.Field("status.phase", filter.To("starting"))).
		OnUpdate("second", w.failingHandler("second", 1), kopf.Field("status.phase", filter.To("starting"))).
		OnUpdate("ready", w.recordingHandler("ready"), kopf.Field("status.phase", filter.To("ready")))
}

// setup sets up the scenario with a new world.
func (s scenario) setup() kopftest.Scenario {
	return s.newScenario(&world{inputs: map[string]string{}})
}

func find(name string) (scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return scenario{}, false
	}
	return scenarios[i], true
}
