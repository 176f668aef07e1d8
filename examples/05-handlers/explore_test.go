package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/05-handlers/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The website has the URL of its domain under every fault, and its deletion is completed.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario(t)
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newWebsite()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newWebsite(), func(site *v1.Website) { site.Spec = v1.WebsiteSpec{Domain: "shop.example.org", Replicas: 3} })
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newWebsite()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The URL depends only on the current domain.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario { return newScenario(t) }, 5)
}

func newScenario(t *testing.T) kopftest.Scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return kopftest.Scenario{
		Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option { return []kopf.Option{websites()} },
	}
}

func newWebsite() *v1.Website {
	return &v1.Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec:       v1.WebsiteSpec{Domain: "shop.example.com", Replicas: 2},
	}
}
