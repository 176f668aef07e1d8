package kopf_test

import (
	"flag"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

func ExampleWithPeering() {
	var peers peering.Options
	peers.BindFlags(flag.CommandLine) // --peering, --priority, --dev, --standalone, --namespace
	flag.Parse()

	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	_ = kopf.SetupWithManager(mgr, databases, kopf.WithPeering(peers))
}

// An operator for some namespaces passes them to the cache of its manager and to its peering.
func ExampleWithPeering_namespaces() {
	var peers peering.Options
	peers.BindFlags(flag.CommandLine)
	flag.Parse()

	var watched cache.Options // Empty options watch all namespaces.
	for _, namespace := range peers.Namespaces {
		if watched.DefaultNamespaces == nil {
			watched.DefaultNamespaces = map[string]cache.Config{}
		}
		watched.DefaultNamespaces[namespace] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Cache: watched})
	if err != nil {
		panic(err)
	}
	_ = kopf.SetupWithManager(mgr, kopf.For(&Database{}).OnCreate("provision", provision), kopf.WithPeering(peers))
}

// Replicas with leader election can share an identity. A new leader then does not wait until the
// peering entry of the previous leader expires.
func ExampleWithPeering_replicas() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	_ = kopf.SetupWithManager(mgr, databases, kopf.WithPeering(peering.Options{Identity: "databases-operator"}))
}
