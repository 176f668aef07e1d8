package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/16-indexing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A change of the config map reaches its app under every fault.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario(t)
		scenario.Given.Objects = []client.Object{newConfigMap()}
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newApp()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newConfigMap(), func(config *corev1.ConfigMap) { config.Data = map[string]string{"color": "blue"} })
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newApp()) },
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newConfigMap()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The state of an app depends only on its current spec, not on earlier specs.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario { return newScenario(t) }, 5)
}

func newScenario(t *testing.T) kopftest.Scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return kopftest.Scenario{
		Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
		Operator: operator,
	}
}

func newApp() *v1.App {
	return &v1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       v1.AppSpec{Image: "web:1.0", Config: "settings"},
	}
}

func newConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", Labels: map[string]string{restarts: ""}},
		Data:       map[string]string{"color": "red"},
	}
}
