package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// No fault creates a second child, and each child follows its database.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario()
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newDatabase()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newDatabase(), func(database *unstructured.Unstructured) {
					if err := unstructured.SetNestedField(database.Object, "mysql", "spec", "engine"); err != nil {
						t.Fatal(err)
					}
				})
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newDatabase()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The children depend on the spec of the database, and not on earlier specs.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", newScenario, 5)
}

// newScenario ignores the passwords, because they are random.
func newScenario() kopftest.Scenario {
	return kopftest.Scenario{
		Given: kopftest.Given{CRDs: []string{"config/crd"}},
		Setup: func(mgr manager.Manager) error {
			h := &handlers{direct: mgr.GetAPIReader()}
			return kopf.SetupWithManager(mgr, h.operator()...)
		},
		Ignore: []string{"data.password", "stringData.password"},
	}
}

func newDatabase() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": "default", "name": "orders"},
		"spec":       map[string]any{"engine": "postgres", "sizeGiB": int64(10)},
	}}
}
