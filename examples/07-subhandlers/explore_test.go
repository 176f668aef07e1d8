package main

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/07-subhandlers/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The operator deploys to each region under every fault, although the sub-handlers end at different times and one
// fails.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario(t)
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newRollout()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newRollout(), func(rollout *v1.Rollout) {
					rollout.Spec = v1.RolloutSpec{Image: "web:1.1", Regions: []string{"amsterdam", "tokyo"}}
				})
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newRollout()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The status has exactly the regions of the spec. The test adds the random regions to the known regions, so that deployments to them succeed.
func TestWalk(t *testing.T) {
	original := maps.Clone(regions)
	t.Cleanup(func() { regions = original })
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario { return newScenario(t) }, 5, kopftest.WithFilter(func(rollout *unstructured.Unstructured) bool {
		names, _, _ := unstructured.NestedStringSlice(rollout.Object, "spec", "regions")
		for _, name := range names {
			regions[name] = time.Second
		}
		return true
	}))
}

func newScenario(t *testing.T) kopftest.Scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return kopftest.Scenario{
		Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option { return []kopf.Option{rollouts()} },
	}
}

func newRollout() *v1.Rollout {
	return &v1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       v1.RolloutSpec{Image: "web:1.0", Regions: []string{"amsterdam", "mumbai", "atlantis"}},
	}
}
