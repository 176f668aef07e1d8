package conditionstest_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	. "github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
)

func pod() *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Starting", Message: "not yet", ObservedGeneration: 2},
	}}}
}

func TestHaveCondition(t *testing.T) {
	g := NewWithT(t)
	g.Expect(pod()).To(HaveCondition("Ready", metav1.ConditionFalse))
	g.Expect(pod()).To(HaveCondition("Ready", metav1.ConditionFalse).
		WithReason("Starting").WithMessage(ContainSubstring("yet")).OfGeneration(2))
	g.Expect(pod()).NotTo(HaveCondition("Ready", metav1.ConditionTrue))
	g.Expect(pod()).NotTo(HaveCondition("Synced", metav1.ConditionUnknown))
	g.Expect(pod()).NotTo(HaveCondition("Ready", metav1.ConditionFalse).WithReason("Other"))
	g.Expect(pod()).NotTo(HaveCondition("Ready", metav1.ConditionFalse).WithMessage("Other"))
	g.Expect(pod()).NotTo(HaveCondition("Ready", metav1.ConditionFalse).OfGeneration(1))

	set, err := conditions.For(pod())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(set).To(HaveCondition("Ready", metav1.ConditionFalse))
	g.Expect(set.List()).To(HaveCondition("Ready", metav1.ConditionFalse))
}

func TestHaveCondition_Errors(t *testing.T) {
	g := NewWithT(t)
	for _, actual := range []any{&corev1.ConfigMap{}, "Ready", nil} {
		_, err := HaveCondition("Ready", metav1.ConditionTrue).Match(actual)
		g.Expect(err).To(HaveOccurred())
	}
}

func TestHaveCondition_FailureMessage(t *testing.T) {
	g := NewWithT(t)
	m := HaveCondition("Ready", metav1.ConditionFalse).WithReason("Broken").WithMessage("not yet")
	g.Expect(m.Match(pod())).To(BeFalse())
	g.Expect(m.FailureMessage(pod())).To(And(
		ContainSubstring(`Ready=False reason=Starting generation=2 "not yet"`),
		ContainSubstring("to have Ready=False"),
		ContainSubstring("and of its reason"),
		Not(ContainSubstring("and of its message")),
	))
	g.Expect(m.NegatedFailureMessage(&corev1.Pod{})).To(And(ContainSubstring("(none)"), ContainSubstring("not to have")))
}

func ExampleHaveCondition() {
	g := NewGomega(func(message string, _ ...int) { fmt.Println(message) })
	g.Expect(pod()).To(HaveCondition("Ready", metav1.ConditionFalse).WithReason("Starting"))
	g.Expect(pod()).To(HaveCondition("Ready", metav1.ConditionTrue))
	// Output:
	// Expected conditions
	//     Ready=False reason=Starting generation=2 "not yet"
	// to have Ready=True
}
