package sharding_test

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// Exactly one process handles an object. An API server without the feature sends the object to all processes, and the other processes ignore it.
func ExampleRing_Selector() {
	orders := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "orders", UID: "0f5b8e56-9c0b-4b0e-9d7c-7f4b7a2f6a11"}}
	for index := range 3 {
		ring := sharding.ServerSide("databases", index, 3)
		shard, err := ring.Shard()
		if err != nil {
			fmt.Println(err)
			return
		}
		selected, err := ring.Selector().Matches(orders)
		fmt.Println(shard, selected, err)
	}
	// Output:
	// databases-0 false <nil>
	// databases-1 false <nil>
	// databases-2 true <nil>
}
