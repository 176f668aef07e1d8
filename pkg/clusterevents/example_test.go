package clusterevents_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

func ExampleSelector() {
	problems := clusterevents.Selector{
		About:        []client.Object{&corev1.Pod{}},
		Reasons:      []string{"BackOff", "Failed"},
		WarningsOnly: true,
		Since:        10 * time.Minute, // also Events that were posted while the operator was not running
	}
	fmt.Println(problems)
	// Output: Warning Events with the reason BackOff or Failed
}
