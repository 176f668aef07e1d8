package kopf_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// steps records what handlers do.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) add(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, step)
}

func (s *steps) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

func (s *steps) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := s.take(); !slices.Equal(got, want) {
		t.Errorf("%s: steps %q, want %q", when, got, want)
	}
}

// pausedObjects returns the value of the metric.
func pausedObjects(t *testing.T) float64 {
	t.Helper()
	var m dto.Metric
	if err := metrics.HeldObjects.WithLabelValues("configmap", "annotation").Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

func setPaused(t *testing.T, cluster *kopftest.Cluster, obj configMap, value string) {
	t.Helper()
	kopftest.Edit(t, cluster, obj, func(obj configMap) {
		if value == "" {
			delete(obj.Annotations, kopf.PausedAnnotation)
			return
		}
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, kopf.PausedAnnotation, value)
	})
}

func setData(t *testing.T, cluster *kopftest.Cluster, obj configMap, value string) {
	t.Helper()
	kopftest.Edit(t, cluster, obj, func(obj configMap) { obj.Data = map[string]string{"size": value} })
}

func TestPausedAnnotation_HoldsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a"), newConfigMap("b")))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnUpdate("resize", func(_ context.Context, req *kopf.Request[configMap]) error {
				seen.add(req.Object.Name + " from " + req.Old.Data["size"] + " to " + req.Object.Data["size"])
				return nil
			}).
			OnReconcile("apply", func(_ context.Context, req *kopf.Request[configMap]) error {
				seen.add(req.Object.Name + " applied")
				return nil
			}).
			Daemon("watch", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[configMap]) error {
				seen.add(req.Object.Name + " watched")
				<-ctx.Done()
				seen.add(req.Object.Name + " left: " + context.Cause(ctx).Error())
				return nil
			}))
		operator.RunUntilQuiet(t)
		if got := seen.take(); len(got) != 4 {
			t.Errorf("at the start: steps %q, want two daemons and two calls", got)
		}
		a := newConfigMap("a")
		setPaused(t, cluster, a, "true")
		operator.RunUntilQuiet(t)
		seen.expect(t, "pause", "a left: operator paused")
		if n := pausedObjects(t); n != 1 {
			t.Errorf("kopf_held_objects = %v, want 1", n)
		}
		setData(t, cluster, a, "1")
		setData(t, cluster, a, "2")
		<-time.After(time.Hour)
		operator.RunUntilQuiet(t)
		seen.expect(t, "edits of a paused object")
		setData(t, cluster, newConfigMap("b"), "1")
		operator.RunUntilQuiet(t)
		seen.expect(t, "edit of another object", "b from  to 1", "b applied")

		setPaused(t, cluster, a, "")
		operator.RunUntilQuiet(t)
		if got, want := seen.take(), []string{"a applied", "a from  to 2", "a watched"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("end of the pause: steps %q, want %q in any order", got, want)
		}
		if n := pausedObjects(t); n != 0 {
			t.Errorf("kopf_held_objects = %v, want 0", n)
		}
	})
}

// A pause between two handlers, and during the delay of a retry, keeps the progress.
func TestPausedAnnotation_KeepsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnCreate("first", func(_ context.Context, req *kopf.Request[configMap]) error {
				seen.add("first")
				setPaused(t, cluster, newConfigMap("a"), "true")
				synctest.Wait() // the informer delivers the annotation
				return nil
			}).
			OnCreate("second", func(_ context.Context, req *kopf.Request[configMap]) error {
				seen.add("second")
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("busy"), time.Minute)
				}
				return nil
			}))
		cluster.Create(t, newConfigMap("a"))
		<-time.After(time.Second)
		seen.expect(t, "pause between two handlers", "first")
		setPaused(t, cluster, newConfigMap("a"), "false")
		<-time.After(time.Second)
		seen.expect(t, "end of the pause", "second")
		setPaused(t, cluster, newConfigMap("a"), "true")
		<-time.After(time.Hour)
		seen.expect(t, "pause during the delay")
		setPaused(t, cluster, newConfigMap("a"), "")
		operator.RunUntilQuiet(t)
		seen.expect(t, "second attempt", "second")
	})
}

func TestPausedAnnotation_HoldsDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		paused := newConfigMap("a")
		paused.Annotations = map[string]string{kopf.PausedAnnotation: "true"}
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnDelete("drop", func(context.Context, *kopf.Request[configMap]) error {
			seen.add("drop")
			return nil
		}))
		cluster.Create(t, newConfigMap("a"))
		operator.RunUntilQuiet(t)
		setPaused(t, cluster, newConfigMap("a"), "true")
		cluster.Delete(t, newConfigMap("a"))
		<-time.After(time.Hour)
		seen.expect(t, "deletion of a paused object")
		setPaused(t, cluster, newConfigMap("a"), "")
		operator.RunUntilQuiet(t)
		seen.expect(t, "end of the pause", "drop")

		// An object that is paused from its creation has no finalizer. Its deletion ends the pause.
		cluster.Create(t, paused)
		operator.RunUntilQuiet(t)
		if n := pausedObjects(t); n != 1 {
			t.Errorf("kopf_held_objects = %v, want 1", n)
		}
		cluster.Delete(t, newConfigMap("a"))
		operator.RunUntilQuiet(t)
		if n := pausedObjects(t); n != 0 {
			t.Errorf("kopf_held_objects = %v after the deletion, want 0", n)
		}
	})
}

// A value that is neither true nor false does not pause the object.
func TestPausedAnnotation_InvalidValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		obj := newConfigMap("a")
		obj.Annotations = map[string]string{kopf.PausedAnnotation: "please"}
		operator := kopftest.Memory(t, kopftest.Objects(obj)).Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("make", func(context.Context, *kopf.Request[configMap]) error {
			seen.add("make")
			return nil
		}))
		operator.RunUntilQuiet(t)
		seen.expect(t, "invalid value", "make")
	})
}

// The condition Paused is true during the pause, and absent afterwards. It does not change the progress.
func TestPausedAnnotation_Condition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		obj := newDeployment()
		cluster := kopftest.Memory(t, kopftest.Objects(obj))
		operator := cluster.Run(t, kopf.For(&appsv1.Deployment{}, kopf.WithConditions("Rolled")).
			OnUpdate("roll", func(_ context.Context, req *kopf.Request[*appsv1.Deployment]) error {
				seen.add("roll")
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("busy"), time.Minute)
				}
				return nil
			}))
		operator.RunUntilQuiet(t)
		status := func() (found string) {
			cluster.Get(t, obj)
			for _, c := range obj.Status.Conditions {
				if c.Type == "Paused" {
					found = string(c.Status)
				}
			}
			return found
		}
		edit := func(change func(*appsv1.Deployment)) { kopftest.Edit(t, cluster, obj, change) }
		edit(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) })
		<-time.After(time.Second)
		seen.expect(t, "first attempt", "roll")
		edit(func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.ObjectMeta, kopf.PausedAnnotation, "true") })
		<-time.After(time.Hour)
		seen.expect(t, "pause")
		if got := status(); got != "True" {
			t.Errorf("condition Paused = %q during the pause, want True", got)
		}
		edit(func(d *appsv1.Deployment) { delete(d.Annotations, kopf.PausedAnnotation) })
		operator.RunUntilQuiet(t)
		seen.expect(t, "second attempt", "roll")
		if got := status(); got != "" {
			t.Errorf("condition Paused = %q after the pause, want none", got)
		}
	})
}
