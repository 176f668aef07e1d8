package conditions_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// The tests implement the requests of kopf's issue 796.

// Conditions are set and read by type. The object can have a map or a list.
func TestKopfIssue796_MapInsteadOfList(t *testing.T) {
	list := parse(`{"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}`)
	dict := parse(`{"status": {"conditions": {"A": {"status": "True"}, "B": {"status": "True"}}}}`)
	for _, obj := range []*conditions.Set{setOf(t, list), setOf(t, dict)} {
		obj.False("B", "R", "")
		b, ok := obj.Get("B")
		equal(t, "B", ok && b.Status == metav1.ConditionFalse, true)
		equal(t, "number of conditions", len(obj.List()), 2)
	}
	if _, still := dict.Object["status"].(map[string]any)["conditions"].(map[string]any)["B"].(map[string]any)["type"]; still {
		t.Error("an element of a map contains its type")
	}
}

// Null values are empty and cause no panic.
func TestKopfIssue796_NullValues(t *testing.T) {
	for _, text := range []string{`{"status": null}`, `{"status": {"conditions": null}}`, `{"status": {"conditions": [null]}}`} {
		obj := parse(text)
		equal(t, "condition before", conditions.Is(obj, "Ready", metav1.ConditionTrue), false)
		setOf(t, obj).True("Ready", "Up", "")
		equal(t, "condition after", conditions.Is(obj, "Ready", metav1.ConditionTrue), true)
	}
}

// Declared conditions exist before a handler sets them, so that users can wait for them.
func TestKopfIssue796_Declare(t *testing.T) {
	s := setOf(t, &kind[standardList]{})
	s.Declare("Ready", "Synced")
	s.True("Synced", "Done", "")
	s.Declare("Ready", "Synced")
	ready, _ := s.Get("Ready")
	equal(t, "Ready", ready.Status, metav1.ConditionUnknown)
	equal(t, "reason of a declared condition", ready.Reason, conditions.ReasonNotReported)
	equal(t, "Synced is True", s.Is("Synced", metav1.ConditionTrue), true)
}

// A handler writes conditions during long work, with one request each.
func TestKopfIssue796_WriteAtAnyTime(t *testing.T) {
	widget := onServer(t, "Widget")
	for step := range 3 {
		equal(t, "writes", countWrites(func() {
			must(t, conditions.Write(t.Context(), k8s, widget, func(s *conditions.Set) {
				s.Unknown("Ready", "Working", fmt.Sprintf("step %d of 3", step+1))
			}))
		}), 1)
	}
}

// An adapter supports fields with other names.
func TestKopfIssue796_CustomShapes(t *testing.T) {
	obj := parse(`{"status": {"flags": {"Up": {"state": "False", "why": "Starting", "text": "", "since": "2024-01-01T00:00:00Z"}}}}`)
	s := setOf(t, obj, conditions.Using(flags))
	s.True("Up", "Started", "")
	up := obj.Object["status"].(map[string]any)["flags"].(map[string]any)["Up"].(map[string]any)
	equal(t, "custom fields", [2]any{up["state"], up["why"]}, [2]any{"True", "Started"})
	_, usual := obj.Object["status"].(map[string]any)["conditions"]
	equal(t, "default field exists", usual, false)
}

// The time is the time of the transition, not of the last write.
func TestKopfIssue796_AutomaticTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obj := &kind[standardList]{}
		began := now()
		setOf(t, obj).False("Ready", "Starting", "")
		<-time.After(time.Minute)
		setOf(t, obj).False("Ready", "Pulling", "")
		equal(t, "transition time after a write with the same status", obj.Status.Conditions[0].LastTransitionTime.Time, began.Time)
		setOf(t, obj).True("Ready", "Up", "")
		equal(t, "transition time after a write with another status", obj.Status.Conditions[0].LastTransitionTime.Time, began.Add(time.Minute))
	})
}

func TestKopfIssue796_ErrorsWithConditions(t *testing.T) {
	connect := func() error {
		return fmt.Errorf("connecting: %w", conditions.Error{Type: "Connected", Reason: "Refused", Err: errors.New("no route")})
	}
	obj := &kind[standardList]{}
	equal(t, "SetFromError", setOf(t, obj).SetFromError(connect()), true)
	c := obj.Status.Conditions[0]
	equal(t, "condition from the error", [4]string{c.Type, string(c.Status), c.Reason, c.Message}, [4]string{"Connected", "False", "Refused", "no route"})
}

// Conditions of other controllers are preserved, including on the server. See also TestSet_PreservesOtherConditions and
// TestWrite_TwoWriters.
func TestKopfIssue796_PreservesOtherConditions(t *testing.T) {
	widget := onServer(t, "Widget")
	const theirs = `{"extra":[1,null,{"a":1.5}],"lastTransitionTime":"2024-01-01T00:00:00.123456+00:00","status":"Perhaps","type":"Theirs"}`
	widget.Object["status"] = parse(`{"conditions": [` + theirs + `]}`).Object
	must(t, k8s.Status().Update(t.Context(), widget))
	must(t, conditions.Write(t.Context(), k8s, widget, ready))
	equal(t, "condition of another controller", text(t, widget.Object["status"].(map[string]any)["conditions"].([]any)[0]), theirs)
}

func TestKopfIssue796_Filters(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True"}}}}
	equal(t, "ready", conditions.Is(pod, "Ready", metav1.ConditionTrue), true)
	next := pod.DeepCopy()
	next.Status.Conditions[0].Status = "False"
	step, happened := conditions.Transition(pod, next, "Ready")
	equal(t, "transition", []any{happened, step.From, step.To}, []any{true, metav1.ConditionTrue, metav1.ConditionFalse})
}

// Conditions of children are mirrored and summarized.
func TestKopfIssue796_MirrorsChildren(t *testing.T) {
	since := metav1.NewTime(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	child := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: "Available", Status: "False", Reason: "MinimumReplicasUnavailable", Message: "0 of 1", LastTransitionTime: since},
		{Type: "Progressing", Status: "Perhaps"},
	}}}
	obj := &kind[standardList]{}
	obj.SetGeneration(4)
	s := setOf(t, obj)
	s.MirrorFrom(child, "Available", "Progressing", "ReplicaFailure")
	must(t, s.Err())
	available, _ := s.Get("Available")
	equal(t, "Available", available, metav1.Condition{
		Type: "Available", Status: "False", Reason: "MinimumReplicasUnavailable", Message: "0 of 1", LastTransitionTime: since, ObservedGeneration: 4,
	})
	equal(t, "Progressing is Unknown", s.Is("Progressing", metav1.ConditionUnknown), true)
	missing, _ := s.Get("ReplicaFailure")
	equal(t, "reason of a missing condition", missing.Reason, conditions.ReasonNotReported)

	s.Summarize(conditions.Root{Of: []string{"Available"}, Not: []string{"ReplicaFailure"}})
	root, _ := s.Get("Ready")
	equal(t, "root condition", root.Reason+"; "+root.Message, "MinimumReplicasUnavailable; Available: 0 of 1")

	s.MirrorFrom(nil, "Available") // as for a deleted child
	equal(t, "Available is Unknown without a child", s.Is("Available", metav1.ConditionUnknown), true)
	s.Mirror(setOf(t, child), "Available")
	equal(t, "Available is False from a set", s.Is("Available", metav1.ConditionFalse), true)
	s.MirrorFrom(&corev1.ConfigMap{}, "Available")
	if s.Err() == nil {
		t.Error("Err returned nil for a child without conditions")
	}
}

// Kinds of other operators, such as a Strimzi topic, have no Go type and no observedGeneration in their schema.
func TestKopfIssue796_OtherKinds(t *testing.T) {
	topic := onServer(t, "Topic")
	change := func(s *conditions.Set) { s.False("NotReady", "Waiting", "") }
	write := func() int {
		return countWrites(func() { must(t, conditions.Write(t.Context(), k8s, topic, change)) })
	}
	equal(t, "writes of a new condition", write(), 1)
	_, pruned := topic.Object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["observedGeneration"]
	equal(t, "observedGeneration exists", pruned, false)
	equal(t, "writes of the same condition", write(), 0)
}

// An operator sets conditions from the results of its handlers.
func TestKopfIssue796_HandlersWithConditions(t *testing.T) {
	widget := onServer(t, "Widget")
	mgr, err := manager.New(config, manager.Options{Metrics: server.Options{BindAddress: "0"}})
	must(t, err)
	let := make(chan struct{})
	type request = kopf.Request[*unstructured.Unstructured]
	must(t, kopf.SetupWithManager(mgr, kopf.For(kopf.Unstructured(widget.GroupVersionKind()), kopf.WithConditions("Ready", "Created", "Announced")).
		OnCreate("create", func(context.Context, *request) error {
			select {
			case <-let:
				return nil
			default:
				return errors.New("not yet")
			}
		}, kopf.ReportCondition("Created"), kopf.Backoff(50*time.Millisecond), kopf.Field("metadata.name", filter.Equal(widget.GetName()))).
		OnCreate("announce", func(context.Context, *request) error { return nil },
			kopf.After("create"), kopf.ReportCondition("Announced"), kopf.Field("metadata.name", filter.Equal(widget.GetName())))))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})

	g := gomega.NewWithT(t)
	now := func() (*unstructured.Unstructured, error) {
		return widget, k8s.Get(t.Context(), client.ObjectKeyFromObject(widget), widget)
	}
	says := func(kind string, status metav1.ConditionStatus, reason string) gomegatypes.GomegaMatcher {
		return conditionstest.HaveCondition(kind, status).WithReason(reason)
	}
	g.Eventually(now, 20*time.Second).Should(gomega.And(
		says("Created", "False", "Retrying"), says("Announced", "Unknown", "Running"), says("Ready", "False", "Retrying")))
	close(let)
	g.Eventually(now, 20*time.Second).Should(gomega.And(
		says("Created", "True", "Succeeded"), says("Announced", "True", "Succeeded"), says("Ready", "True", conditions.ReasonAsExpected)))
}
