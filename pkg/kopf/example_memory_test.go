package kopf_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

type PodRequest = kopf.Request[*corev1.Pod]

func count(context.Context, *PodRequest) error { return nil }

func ExampleIndexBy() {
	pods := kopf.For(&corev1.Pod{})
	byNode := kopf.IndexBy(pods, "by-node", func(_ context.Context, req *PodRequest) (map[string]string, error) {
		return map[string]string{req.Object.Spec.NodeName: req.Object.Name}, nil
	}, kopf.Field("spec.nodeName", filter.Present))

	nodes := kopf.For(&corev1.Node{}).
		OnDelete("evacuate", func(_ context.Context, req *kopf.Request[*corev1.Node]) error {
			for _, pod := range byNode.Get(req.Object.Name) {
				fmt.Println("must be moved:", pod)
			}
			return nil
		})

	_ = mgr.Add(kopf.New(mgr, pods, nodes))
}

func ExampleIndex() {
	pods := kopf.For(&corev1.Pod{})
	phases := kopf.IndexBy(pods, "phases", func(_ context.Context, req *PodRequest) (map[corev1.PodPhase]string, error) {
		return map[corev1.PodPhase]string{req.Object.Status.Phase: req.Object.Name}, nil
	})

	fmt.Println(phases.Has(corev1.PodRunning), phases.Len(), phases.Get(corev1.PodFailed))
	for phase, names := range phases.All() {
		fmt.Println(phase, names)
	}
	// Output:
	// false 0 []
}

var connections = kopf.NewMemo[fakeCloud]("connections")

func ExampleMemo() {
	kopf.For(&Database{}).
		On("connect", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, func(ctx context.Context, _ *DatabaseRequest) error {
			connections.Store(ctx, fakeCloud{})
			return nil
		}).
		OnDelete("drop", func(ctx context.Context, req *DatabaseRequest) error {
			connection, ok := connections.Load(ctx)
			if !ok {
				connection = cloud // no handler of this process has stored a connection yet
			}
			return connection.Drop(ctx, req.Object.Name)
		})
}

func ExampleNewMemo() {
	var seen = kopf.NewMemo[int]("number of observations")

	kopf.For(&corev1.Pod{}).
		OnEvent("count", func(ctx context.Context, _ *PodRequest) error {
			times, _ := seen.Load(ctx)
			seen.Store(ctx, times+1)
			return nil
		})
}
