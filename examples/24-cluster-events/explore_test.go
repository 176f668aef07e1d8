package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// No fault loses the Event, because Since selects Events from the time in which the operator was not running.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Given: kopftest.Given{CRDs: []string{"config/crd"}},
			Setup: func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, operator()...) },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newDatabase()) },
				func(t testing.TB, c *kopftest.Cluster) {
					c.Create(t, &corev1.Event{
						ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "orders-0.failed"},
						InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "orders-0"},
						Type:           corev1.EventTypeWarning, Reason: "Failed", Message: "the image does not exist",
					})
				},
			},
		}
	}, kopftest.WithMaxPlans(10))
}

// The states of the databases do not depend on earlier specs.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario {
		return kopftest.Scenario{
			Given: kopftest.Given{CRDs: []string{"config/crd"}},
			Setup: func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, operator()...) },
		}
	}, 5)
}

func newDatabase() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": "default", "name": "orders"},
		"spec":       map[string]any{"engine": "postgres", "sizeGiB": int64(10)},
	}}
}
