package conditions_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
)

func show(obj client.Object) {
	s, err := conditions.For(obj)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range s.List() {
		fmt.Printf("%s=%s %s %q\n", c.Type, c.Status, c.Reason, c.Message)
	}
}

// A reconciler sets conditions and a summary.
func ExampleWrite() {
	reconcile := func(ctx context.Context, c client.Client, db client.Object, deployment *appsv1.Deployment) error {
		return conditions.Write(ctx, c, db, func(s *conditions.Set) {
			s.Declare("Ready", "Synced", "Available")
			s.True("Synced", "UpToDate", "")
			s.MirrorFrom(deployment, "Available")
			s.Summarize(conditions.Root{Of: []string{"Synced", "Available"}})
		})
	}
	_ = reconcile
}

// A reconciler that writes the status itself uses only the set.
func ExampleFor() {
	pod := &corev1.Pod{}
	s, err := conditions.For(pod)
	if err != nil {
		return // the kind has no place for conditions
	}
	s.Declare("Ready")
	s.False("Connected", "connection refused", "dial tcp 10.0.0.1:5432")
	if err := s.Err(); err != nil {
		return // invalid conditions
	}
	fmt.Println("changed:", s.Changed())
	show(pod)
	// Output:
	// changed: true
	// Ready=Unknown NotReported ""
	// Connected=False ConnectionRefused "dial tcp 10.0.0.1:5432"
}

func ExampleSet_Summarize() {
	obj := &corev1.Pod{}
	s, _ := conditions.For(obj)
	s.True("Synced", "UpToDate", "")
	s.True("Degraded", "DiskFull", "97 % of 10 GiB")
	s.Summarize(conditions.Root{Of: []string{"Synced"}, Not: []string{"Degraded"}})
	ready, _ := s.Get("Ready")
	fmt.Println(ready.Status, ready.Reason, ready.Message)
	// Output: False DiskFull Degraded: 97 % of 10 GiB
}

func ExampleSet_MirrorFrom() {
	deployment := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: "Available", Status: "True", Reason: "MinimumReplicasAvailable"},
	}}}
	obj := &corev1.Pod{}
	s, _ := conditions.For(obj)
	s.MirrorFrom(deployment, "Available")
	show(obj)
	// Output: Available=True MinimumReplicasAvailable ""
}

func ExampleError() {
	connect := func() error {
		return conditions.Error{Type: "Connected", Reason: "Refused", Err: errors.New("dial tcp 10.0.0.1:5432: refused")}
	}
	obj := &corev1.Pod{}
	s, _ := conditions.For(obj)
	s.True("Connected", "Up", "")
	if err := connect(); err != nil {
		s.SetFromError(fmt.Errorf("provisioning: %w", err))
	}
	show(obj)
	// Output: Connected=False Refused "dial tcp 10.0.0.1:5432: refused"
}

func ExampleIs() {
	pod := &corev1.Pod{}
	fmt.Println(conditions.Is(pod, "Ready", metav1.ConditionTrue), conditions.Is(pod, "Ready", metav1.ConditionUnknown))
	// Output: false true
}

func ExampleTransition() {
	status := func(status corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "Ready", Status: status}}}}
	}
	if step, happened := conditions.Transition(status("True"), status("False"), "Ready"); happened {
		fmt.Println(step.Type, "was", step.From, "and is", step.To)
	}
	// Output: Ready was True and is False
}

func ExampleAt() {
	obj := parse(`{"status": {"health": {"checks": [{"type": "Ready", "status": "True"}]}}}`)
	fmt.Println(conditions.Is(obj, "Ready", metav1.ConditionTrue, conditions.At("status.health.checks")))
	// Output: true
}

func ExampleAsMap() {
	obj := parse(`{}`)
	s, _ := conditions.For(obj, conditions.AsMap())
	s.Declare("Ready")
	ready := obj.Object["status"].(map[string]any)["conditions"].(map[string]any)["Ready"].(map[string]any)
	fmt.Println(ready["status"])
	// Output: Unknown
}

func ExampleUsing() {
	obj := parse(`{"status": {"flags": {"Up": {"state": "True", "why": "Started", "text": "", "since": "2024-01-01T00:00:00Z"}}}}`)
	fmt.Println(conditions.Is(obj, "Up", metav1.ConditionTrue, conditions.Using(flags)))
	// Output: true
}

// The package has matchers for tests.
func Example_matchers() {
	g := gomega.NewGomega(func(message string, _ ...int) { fmt.Println(message) })
	db := parse(`{"metadata": {"generation": 2}}`)
	s, _ := conditions.For(db)
	s.False("Ready", "Starting", "not yet")
	g.Expect(db).To(conditionstest.HaveCondition("Ready", metav1.ConditionFalse).
		WithReason("Starting").WithMessage(gomega.ContainSubstring("yet")).OfGeneration(2))
	// Output:
}
