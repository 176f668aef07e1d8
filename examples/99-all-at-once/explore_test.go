package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/99-all-at-once/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// The cluster has its address, its users and its address book under every fault, and its deletion is completed.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario(t)
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newCluster()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newCluster(), func(cluster *v1.Cluster) {
					cluster.Spec = v1.ClusterSpec{Version: "17", Nodes: 3, Users: []string{"alice", "root"}}
				})
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newCluster()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(5))
}

// The status depends only on the current spec.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario { return newScenario(t) }, 3)
}

// newScenario has admission handlers, but an in-memory cluster does not call them. The scenario has no peers.
func newScenario(t *testing.T) kopftest.Scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	at := addresses{host: "localhost", port: 9443}
	return kopftest.Scenario{
		Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option { return operator(at, peering.Options{Standalone: true}) },
	}
}

// newCluster returns a cluster that waits for its backup when it is deleted.
func newCluster() *v1.Cluster {
	return &v1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders", Labels: map[string]string{"tier": "gold"}},
		Spec:       v1.ClusterSpec{Version: "16", Nodes: 2, Users: []string{"alice", "bob"}},
	}
}
