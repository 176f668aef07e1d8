package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The inventory contains all databases after every fault.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario()
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newDatabase()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newDatabase(), func(database Object) {
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

// The inventory contains the database for every spec, until the database is deleted.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", newScenario, 5)
}

// newScenario creates an empty inventory for each process.
func newScenario() kopftest.Scenario {
	var present *inventory
	return kopftest.Scenario{
		Given: kopftest.Given{CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option {
			present = &inventory{}
			return []kopf.Option{databases("blue", present)}
		},
		ExternalState: func() any { return present.list("blue") },
	}
}

func newDatabase() Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": "default", "name": "orders"},
		"spec":       map[string]any{"engine": "postgres", "sizeGiB": int64(10)},
	}}
}
