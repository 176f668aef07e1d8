package sharding_test

import (
	"fmt"
	"strconv"

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

func ExampleServerSide() {
	index, err := strconv.Atoi("1") // os.Getenv("POD_INDEX"), from the label apps.kubernetes.io/pod-index
	if err != nil {
		fmt.Println("POD_INDEX is not the ordinal of the pod:", err)
		return
	}
	ring := sharding.ServerSide("databases", index, 3, sharding.LeaseNamespace("databases-system"))
	shard, err := ring.Shard()
	fmt.Println(shard, err)
	fmt.Println(ring.Selector())
	// Output:
	// databases-1 <nil>
	// shardRange(object.metadata.uid, '0x5555555555555555', '0xaaaaaaaaaaaaaaaa')
}
