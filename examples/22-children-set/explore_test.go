package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Under every fault, the ConfigMaps are those of the last list of pages in the end.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario()
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newWebsite("home", "cart")) },
			func(t testing.TB, c *kopftest.Cluster) { setPages(t, c, "home", "news") },
			func(t testing.TB, c *kopftest.Cluster) { setPages(t, c, "news") },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The children depend on the spec of the website, and not on earlier specs.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", newScenario, 5)
}

func TestPages_DeletesObsoletePages(t *testing.T) {
	cluster := kopftest.Memory(t, kopftest.CRDs("config/crd"), kopftest.Objects(newWebsite("home", "cart")))
	operator := cluster.Run(t, websites())
	operator.RunUntilQuiet(t)
	setPages(t, cluster, "home")
	operator.RunUntilQuiet(t)
	pages := &corev1.ConfigMapList{}
	if err := cluster.Client.List(t.Context(), pages); err != nil {
		t.Fatal(err)
	}
	if len(pages.Items) != 1 || pages.Items[0].Name != "shop-page-home" {
		t.Errorf("pages = %v, want shop-page-home only", pages.Items)
	}
	website := newWebsite()
	cluster.Get(t, website)
	conditions, _, _ := unstructured.NestedSlice(website.Object, "status", "conditions")
	if len(conditions) != 2 {
		t.Errorf("conditions = %v, want PagesReady and ServingReady", conditions)
	}
}

func newScenario() kopftest.Scenario {
	return kopftest.Scenario{
		Given:    kopftest.Given{CRDs: []string{"config/crd"}},
		Operator: operator,
	}
}

func setPages(t testing.TB, c *kopftest.Cluster, pages ...string) {
	kopftest.Edit(t, c, newWebsite(), func(website *unstructured.Unstructured) {
		if err := unstructured.SetNestedStringSlice(website.Object, pages, "spec", "pages"); err != nil {
			t.Fatal(err)
		}
	})
}

func newWebsite(pages ...string) *unstructured.Unstructured {
	website := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Website",
		"metadata":   map[string]any{"namespace": "default", "name": "shop"},
		"spec":       map[string]any{"image": "nginx:1.29"},
	}}
	_ = unstructured.SetNestedStringSlice(website.Object, pages, "spec", "pages")
	return website
}
