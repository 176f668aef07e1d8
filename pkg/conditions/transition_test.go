package conditions_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

func TestTransition(t *testing.T) {
	ready := func(status string) client.Object {
		return parse(`{"status": {"conditions": [{"type": "Ready", "status": "` + status + `", "reason": "` + status + `"}]}}`)
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for name, c := range map[string]struct {
		old, new client.Object
		from, to metav1.ConditionStatus
		want     bool
	}{
		"unchanged":                {ready("True"), ready("True"), yes, yes, false},
		"failed":                   {ready("True"), ready("False"), yes, no, true},
		"recovered":                {ready("False"), ready("True"), no, yes, true},
		"created":                  {nil, ready("True"), unknown, yes, true},
		"created with Unknown":     {nil, ready("Unknown"), unknown, unknown, false},
		"declared":                 {parse(`{}`), ready("Unknown"), unknown, unknown, false},
		"first report":             {parse(`{"status": null}`), ready("False"), unknown, no, true},
		"removed":                  {ready("True"), parse(`{}`), yes, unknown, true},
		"deleted":                  {ready("True"), nil, yes, unknown, true},
		"deleted, typed":           {ready("True"), (*corev1.Pod)(nil), yes, unknown, true},
		"custom status":            {ready("Perhaps"), ready("True"), "Perhaps", yes, true},
		"an invalid status before": {parse(`{"status": 5}`), ready("True"), unknown, yes, true},
		"no conditions":            {&corev1.ConfigMap{}, &corev1.ConfigMap{}, unknown, unknown, false},
	} {
		step, happened := conditions.Transition(c.old, c.new, "Ready")
		if step.From != c.from || step.To != c.to || happened != c.want || step.Type != "Ready" {
			t.Errorf("%s: got %v, %t, want %t", name, step, happened, c.want)
		}
	}
	step, _ := conditions.Transition(ready("True"), ready("False"), "Ready")
	equal(t, "old reason", step.Old.Reason, "True")
	equal(t, "new reason", step.New.Reason, "False")
	step, _ = conditions.Transition(nil, nil, "Ready")
	if step.Old != nil || step.New != nil {
		t.Errorf("transition without conditions = %v, want no conditions", step)
	}
}

func TestIs(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "Ready", Status: "False"}}}}
	equal(t, "same status", conditions.Is(pod, "Ready", metav1.ConditionFalse), true)
	equal(t, "other status", conditions.Is(pod, "Ready", metav1.ConditionTrue), false)
	equal(t, "missing condition is Unknown", conditions.Is(pod, "Other", metav1.ConditionUnknown), true)
	equal(t, "missing condition is False", conditions.Is(pod, "Other", metav1.ConditionFalse), false)
}
