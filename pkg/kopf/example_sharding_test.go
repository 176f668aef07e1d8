package kopf_test

import (
	"context"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// Each replica handles its part of the objects.
func ExampleWithSharding() {
	setup := func(mgr manager.Manager) error {
		maps := kopf.For(&corev1.ConfigMap{}).
			OnCreate("create", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil })
		return kopf.SetupWithManager(mgr, maps, kopf.WithSharding(sharding.ControllerRing("maps")))
	}
	_ = setup
}

// Outside of a pod, the shard needs a name and a namespace for its Lease.
func ExampleWithSharding_outsideOfAPod() {
	ring := sharding.ControllerRing("databases", sharding.ShardName("laptop"), sharding.LeaseNamespace("default"))
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	setup := func(mgr manager.Manager) error {
		return kopf.SetupWithManager(mgr, databases, kopf.WithSharding(ring))
	}
	_ = setup
}

// This is the code of docs/scaling.md.
func ExampleWithSharding_databases() {
	setup := func(mgr manager.Manager) {
		databases := kopf.For(&Database{}).OnCreate("provision", provision)
		_ = kopf.SetupWithManager(mgr, databases, kopf.WithSharding(sharding.ControllerRing("databases")))
	}
	_ = setup
}

// The API server sends each replica only its objects. This is also code of docs/scaling.md.
func ExampleWithSharding_serverSide() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	setup := func(mgr manager.Manager) error {
		index, err := strconv.Atoi(os.Getenv("POD_INDEX"))
		if err != nil {
			return fmt.Errorf("POD_INDEX must be the ordinal of the pod: %w", err)
		}
		return kopf.SetupWithManager(mgr, databases, kopf.WithSharding(sharding.ServerSide("databases", index, 3)))
	}
	_ = setup
}
