package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Under every fault, the operator handles each phase of the pod, and the namespace has its policy.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Operator: func() []kopf.Option { return []kopf.Option{podHandlers(), namespaceHandlers()} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newNamespace()) },
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newPod()) },
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newPod(), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newPod()) },
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newNamespace()) },
			},
		}
	}, kopftest.WithMaxPlans(10))
}

func newNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{isolated: "true"}}}
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{watched: ""}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
}
