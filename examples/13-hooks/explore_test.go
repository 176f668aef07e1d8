package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Each process logs in again, including after a crash, and provisions the database. The middlewares do not change the outcome.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario()
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newDatabase()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newDatabase(), func(database Database) {
					if err := unstructured.SetNestedField(database.Object, int64(20), "spec", "sizeGiB"); err != nil {
						t.Fatal(err)
					}
				})
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newDatabase()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The state of a database depends only on its current spec, not on earlier specs.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", newScenario, 5)
}

// newScenario has a session for each process.
func newScenario() kopftest.Scenario {
	var cloud *session
	return kopftest.Scenario{
		Given: kopftest.Given{CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option {
			cloud = &session{}
			return operator(newTracer(), cloud)
		},
		ExternalState: func() any { return cloud.open.Load() },
	}
}

func newDatabase() Database {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": "default", "name": "orders"},
		"spec":       map[string]any{"engine": "postgres", "sizeGiB": int64(10)},
	}}
}
