package sharding_test

import (
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

func ExampleControllerRing() {
	ring := sharding.ControllerRing("databases", sharding.ShardName("databases-0"), sharding.LeaseNamespace("databases-system"))
	shard, err := ring.Shard()
	fmt.Println(ring.Name(), shard, err)
	fmt.Println(sharding.ShardLabel(ring.Name()) + "=" + shard)
	// Output:
	// databases databases-0 <nil>
	// shard.alpha.sharding.timebertt.dev/databases=databases-0
}
