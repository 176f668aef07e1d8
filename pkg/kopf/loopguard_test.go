package kopf_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func loopingDeployment(name string) deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{MinReadySeconds: 1, ProgressDeadlineSeconds: new(int32(600)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}},
	}
}

// loopingObjects returns the value of the metric.
func loopingObjects(t *testing.T) float64 {
	t.Helper()
	var m dto.Metric
	if err := metrics.HeldObjects.WithLabelValues("deployment", "loop").Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// loop counts the calls of handlers, and gives each call another value to write.
type loop struct{ calls atomic.Int64 }

func (l *loop) next() string { return strconv.FormatInt(100+l.calls.Add(1), 10) }

// patchJSON returns a handler that sends a merge patch with a new value for each call.
func (l *loop) patchJSON(format string, status bool) kopf.Handler[deployment] {
	return func(ctx context.Context, req *kopf.Request[deployment]) error {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, l.next()))
		if status {
			return req.Client.Status().Patch(ctx, loopingDeployment(req.Object.Name), patch)
		}
		return req.Client.Patch(ctx, loopingDeployment(req.Object.Name), patch)
	}
}

func noChange(context.Context, *kopf.Request[deployment]) error { return nil }

// selfCaused are handlers that cause their own calls without an end, with the changes that the reports name.
var selfCaused = map[string]struct {
	options []kopf.ResourceOption
	declare func(*kopf.Resource[deployment], *loop)
	changes string
}{
	"merge patch by a client": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnUpdate("touch", l.patchJSON(`{"spec": {"minReadySeconds": %s}}`, false))
		},
		changes: `"touch" changes spec.minReadySeconds`,
	},
	"update by a client": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnUpdate("touch", func(ctx context.Context, req *kopf.Request[deployment]) error {
				var obj appsv1.Deployment
				if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &obj); err != nil {
					return err
				}
				obj.Labels = map[string]string{"time": l.next()}
				return req.Client.Update(ctx, &obj)
			})
		},
		changes: `"touch" changes metadata.labels.time`,
	},
	"JSON patch by a client": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnUpdate("touch", func(ctx context.Context, req *kopf.Request[deployment]) error {
				data := fmt.Appendf(nil, `[{"op": "add", "path": "/spec/template/spec/containers/0/image", "value": "app:%s"}]`, l.next())
				return req.Client.Patch(ctx, loopingDeployment(req.Object.Name), client.RawPatch(types.JSONPatchType, data))
			})
		},
		changes: `"touch" changes spec.template.spec.containers`,
	},
	"apply configuration by a client": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnUpdate("touch", func(ctx context.Context, req *kopf.Request[deployment]) error {
				config := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
					"name": req.Object.Name, "namespace": req.Object.Namespace, "annotations": map[string]any{"example.com/time": l.next()},
				}}}
				config.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
				return req.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), client.FieldOwner("test"), client.ForceOwnership)
			})
		},
		changes: `"touch" changes metadata.annotations.example.com/time`,
	},
	"a watched field of the status": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnField("count", "status.replicas", func(_ context.Context, req *kopf.Request[deployment]) error {
				l.next()
				req.Object.Status.Replicas++
				return nil
			})
		},
		changes: `"count/status.replicas" changes status.replicas`,
	},
	"a watched field of the status, with Flush": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnField("count", "status.replicas", func(ctx context.Context, req *kopf.Request[deployment]) error {
				l.next()
				req.Object.Status.Replicas++
				return req.Flush(ctx)
			})
		},
		changes: `"count/status.replicas" changes status.replicas`,
	},
	"a watched field of the status, by a client": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnField("count", "status.replicas", l.patchJSON(`{"status": {"replicas": %s}}`, true))
		},
		changes: `"count/status.replicas" changes status.replicas`,
	},
	"a condition with a handler": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnCondition("flip", "Synced", func(_ context.Context, req *kopf.Request[deployment]) error {
				l.next()
				if req.Conditions().Is("Synced", metav1.ConditionTrue) {
					req.Conditions().False("Synced", "Flipped", "")
				} else {
					req.Conditions().True("Synced", "Flipped", "")
				}
				return nil
			})
		},
		changes: `"flip" changes status.conditions.Synced`,
	},
	"own changes as updates": {
		options: []kopf.ResourceOption{kopf.WithOwnChangesAsUpdates()},
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnUpdate("touch", func(_ context.Context, req *kopf.Request[deployment]) error {
				metav1.SetMetaDataAnnotation(&req.Object.ObjectMeta, "time", l.next())
				return nil
			})
		},
		changes: `"touch" changes metadata.annotations.time`,
	},
	"a reconcile handler with a client": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnReconcile("apply", l.patchJSON(`{"status": {"replicas": %s}}`, true))
		},
		changes: `"apply" changes status.replicas`,
	},
	"a reconcile handler and a cause handler": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnReconcile("apply", l.patchJSON(`{"metadata": {"labels": {"time": "%s"}}}`, false)).OnUpdate("note", noChange)
		},
		changes: `"apply" changes metadata.labels.time`,
	},
	"two handlers that trigger each other": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnUpdate("a", l.patchJSON(`{"spec": {"minReadySeconds": %s}}`, false), kopf.Field("spec.progressDeadlineSeconds")).
				OnUpdate("b", l.patchJSON(`{"spec": {"progressDeadlineSeconds": 1%s}}`, false), kopf.Field("spec.minReadySeconds"))
		},
		changes: `"a/spec.progressDeadlineSeconds" changes spec.minReadySeconds, "b/spec.minReadySeconds" changes spec.progressDeadlineSeconds`,
	},
	"a cause handler and a reconcile handler that trigger each other": {
		declare: func(r *kopf.Resource[deployment], l *loop) {
			r.OnField("a", "status.replicas", l.patchJSON(`{"metadata": {"labels": {"time": "%s"}}}`, false)).
				OnReconcile("b", func(_ context.Context, req *kopf.Request[deployment]) error {
					l.next()
					req.Object.Status.Replicas++
					return nil
				})
		},
		changes: `"a/status.replicas" changes metadata.labels.time, "b" changes status.replicas`,
	},
}

func TestLoopGuard_DelaysLoops(t *testing.T) {
	for name, test := range selfCaused {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l loop
				cluster := kopftest.Memory(t, kopftest.Objects(loopingDeployment("a")))
				run := func(fixed bool) *kopftest.Operator {
					r := kopf.For(&appsv1.Deployment{}, append(test.options, kopf.WithConditions("Ready"))...)
					if fixed {
						r.OnUpdate("touch", noChange).OnReconcile("apply", noChange)
					} else {
						test.declare(r, &l)
					}
					return cluster.Run(t, r)
				}
				operator := run(false)
				<-time.After(time.Second)
				editDeployment(t, cluster)
				<-time.After(time.Minute)
				if n := l.calls.Load(); n < 10 || n > 40 {
					t.Errorf("%d calls in the first minute, want 10 to 40", n)
				}
				l.calls.Store(1000)
				<-time.After(10 * time.Minute)
				if n := l.calls.Load() - 1000; n < 9 || n > 22 {
					t.Errorf("%d calls in the next ten minutes, want one or two a minute", n)
				}
				expectLoop(t, cluster, operator, test.changes)
				if n := loopingObjects(t); n != 1 {
					t.Errorf("kopf_held_objects = %v, want 1", n)
				}
				operator.Stop(t)

				run(true)
				<-time.After(2 * time.Minute)
				if condition, found := loopCondition(t, cluster); found {
					t.Errorf("after the handler is fixed: %+v, want no condition", condition)
				}
				if n := loopingObjects(t); n != 0 {
					t.Errorf("after the handler is fixed: kopf_held_objects = %v, want 0", n)
				}
			})
		})
	}
}

// A loop ends also if the handlers no longer match the object while a call is delayed.
func TestLoopGuard_EndsWithoutMatchingHandlers(t *testing.T) {
	for name, others := range map[string]bool{"no handler matches": false, "another handler matches": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l loop
				obj := loopingDeployment("a")
				obj.Labels = map[string]string{"loops": "yes"}
				cluster := kopftest.Memory(t, kopftest.Objects(obj))
				r := kopf.For(&appsv1.Deployment{}).OnUpdate("touch", l.patchJSON(`{"spec": {"minReadySeconds": %s}}`, false), kopf.Label("loops"))
				if others {
					r.OnCreate("other", noChange).OnReconcile("apply", noChange)
				}
				cluster.Run(t, r)
				<-time.After(time.Second)
				editDeployment(t, cluster)
				<-time.After(5 * time.Minute)
				if n := loopingObjects(t); n != 1 {
					t.Errorf("during the loop: kopf_held_objects = %v, want 1", n)
				}
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": null}}`))
				if err := cluster.Client.Patch(t.Context(), loopingDeployment("a"), patch); err != nil {
					t.Fatal(err)
				}
				calls := l.calls.Load()
				<-time.After(3 * time.Minute)
				if n := l.calls.Load(); n != calls {
					t.Errorf("%d calls after the label was removed, want 0", n-calls)
				}
				if n := loopingObjects(t); n != 0 {
					t.Errorf("after the loop: kopf_held_objects = %v, want 0", n)
				}
			})
		})
	}
}

// editDeployment changes the object as a user does. The two writes do not overwrite changes of handlers.
func editDeployment(t *testing.T, cluster *kopftest.Cluster) {
	t.Helper()
	for _, write := range []func(obj client.Object, patch client.Patch) error{
		func(obj client.Object, patch client.Patch) error {
			return cluster.Client.Status().Patch(t.Context(), obj, patch)
		},
		func(obj client.Object, patch client.Patch) error {
			return cluster.Client.Patch(t.Context(), obj, patch)
		},
	} {
		patch := `{"spec": {"minReadySeconds": 50}, "status": {"replicas": 50, "conditions": [{"type": "Synced", "status": "True"}]}}`
		if err := write(loopingDeployment("a"), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
}

func loopCondition(t *testing.T, cluster *kopftest.Cluster) (metav1.Condition, bool) {
	t.Helper()
	obj := loopingDeployment("a")
	cluster.Get(t, obj)
	set, err := conditions.For(obj)
	if err != nil {
		t.Fatal(err)
	}
	return set.Get("HandlerLoop")
}

// expectLoop checks the condition and the Events.
func expectLoop(t *testing.T, cluster *kopftest.Cluster, operator *kopftest.Operator, changes string) {
	t.Helper()
	message := "The handlers of the object cause their own calls, which are delayed: " + changes
	condition, _ := loopCondition(t, cluster)
	if condition.Status != metav1.ConditionTrue || condition.Reason != "OwnChanges" || condition.Message != message {
		t.Errorf("condition %+v, want True with the message %q", condition, message)
	}
	events := slices.DeleteFunc(operator.Events(), func(event kopftest.Event) bool { return event.Reason != "HandlerLoop" })
	if len(events) != 1 || events[0].Type != "Warning" || !strings.HasPrefix(message, events[0].Note) {
		all, _ := json.Marshal(events)
		t.Errorf("Events %s, want one with the note %q", all, message)
	}
}

// A state machine in a field of the status takes five steps after each edit, and no step is delayed.
func TestLoopGuard_KeepsChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loop
		cluster := kopftest.Memory(t, kopftest.Objects(loopingDeployment("a")))
		operator := cluster.Run(t, kopf.For(&appsv1.Deployment{}, kopf.WithConditions("Ready")).
			OnField("step", "status.replicas", func(_ context.Context, req *kopf.Request[deployment]) error {
				l.next()
				if req.Object.Status.Replicas%5 != 0 {
					req.Object.Status.Replicas++
				}
				return nil
			}))
		operator.RunUntilQuiet(t)
		began := time.Now()
		for range 6 { // 30 steps in a minute
			patch := fmt.Appendf(nil, `{"status": {"replicas": %d}}`, 1+l.calls.Load())
			if err := cluster.Client.Status().Patch(t.Context(), loopingDeployment("a"), client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Fatal(err)
			}
			operator.RunUntilQuiet(t)
		}
		if n, took := l.calls.Load(), time.Since(began); n != 30 || took > time.Second {
			t.Errorf("%d calls in %v, want 30 without delays", n, took)
		}
		if condition, found := loopCondition(t, cluster); found || loopingObjects(t) != 0 {
			t.Errorf("condition %+v, want none", condition)
		}
	})
}

// During a loop, a change by another client is handled without a delay, also if handlers have changed other fields since.
func TestLoopGuard_HandlesEditsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loop
		var seen steps
		cluster := kopftest.Memory(t, kopftest.Objects(loopingDeployment("a")))
		var operator *kopf.Operator
		cluster.RunManager(t, func(mgr manager.Manager) error {
			operator = kopf.New(mgr, kopf.For(&appsv1.Deployment{}).
				OnUpdate("touch", l.patchJSON(`{"spec": {"minReadySeconds": %s}}`, false)).
				OnReconcile("apply", func(_ context.Context, req *kopf.Request[deployment]) error {
					seen.add("applied " + req.Object.Labels["edit"])
					return nil
				}))
			return mgr.Add(operator)
		})
		<-time.After(time.Second)
		editDeployment(t, cluster)
		<-time.After(10 * time.Minute)
		for edit := range 10 {
			<-time.After(7 * time.Minute)
			<-time.After(time.Duration(edit) * 5 * time.Second)
			calls := l.calls.Load()
			seen.take()
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {"edit": "%d"}}}`, edit))
			if err := cluster.Client.Patch(t.Context(), loopingDeployment("a"), patch); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
			if n := l.calls.Load() - calls; n != 1 {
				t.Errorf("edit %d: %d calls of the cause handler, want 1", edit, n)
			}
			seen.expect(t, fmt.Sprint("edit ", edit), fmt.Sprint("applied ", edit))
		}
		explanation, err := operator.Explain(t.Context(), loopingDeployment("a"))
		if err != nil {
			t.Fatal(err)
		}
		want := `the handlers of the object cause their own calls: "touch" changes spec.minReadySeconds; the next ones in 1m0s`
		if !slices.Contains(explanation.Waits, want) {
			t.Errorf("the object waits for %q, want %q", explanation.Waits, want)
		}
	})
}

func TestWithLoopGuard(t *testing.T) {
	for limit, want := range map[int]func(calls int64) bool{
		0:  func(calls int64) bool { return calls > 80 },
		3:  func(calls int64) bool { return calls >= 4 && calls < 12 },
		50: func(calls int64) bool { return calls >= 51 && calls < 56 },
	} {
		synctest.Test(t, func(t *testing.T) {
			var l loop
			cluster := kopftest.Memory(t, kopftest.Objects(loopingDeployment("a")))
			cluster.Run(t, kopf.For(&appsv1.Deployment{}, kopf.WithLoopGuard(limit)).
				OnUpdate("touch", func(ctx context.Context, req *kopf.Request[deployment]) error {
					<-time.After(200 * time.Millisecond) // without a limit, the test kit stops faster loops
					return l.patchJSON(`{"spec": {"minReadySeconds": %s}}`, false)(ctx, req)
				}))
			<-time.After(time.Second)
			editDeployment(t, cluster)
			<-time.After(30 * time.Second)
			if n := l.calls.Load(); !want(n) {
				t.Errorf("WithLoopGuard(%d): %d calls in 30 seconds", limit, n)
			}
		})
	}
}
