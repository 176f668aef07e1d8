package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The handler grow fails three times and then succeeds, under every fault.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario()
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newDatabase()) },
			resizeTo(20),
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newDatabase()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The state of a database depends only on its current spec, not on earlier specs.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", newScenario, 5)
}

func newScenario() kopftest.Scenario {
	return kopftest.Scenario{
		Given:    kopftest.Given{CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option { return operator(events.Transitions) },
	}
}

// newDatabase returns a database of ten GiB.
func newDatabase() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": "default", "name": "orders"},
		"spec":       map[string]any{"engine": "postgres", "sizeGiB": int64(10)},
	}}
}

func resizeTo(size int64) func(testing.TB, *kopftest.Cluster) {
	return func(t testing.TB, c *kopftest.Cluster) {
		kopftest.Edit(t, c, newDatabase(), func(database *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(database.Object, size, "spec", "sizeGiB"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
