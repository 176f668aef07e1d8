package diff_test

import (
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func ExampleOf() {
	old := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"replicas": int64(1), "ports": []any{80}},
	}
	now := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"tier": "front"}},
		"spec":     map[string]any{"replicas": 1.0, "ports": []any{80, 443}},
	}
	for _, item := range diff.Of(old, now) {
		fmt.Println(item)
	}
	// Output:
	// add metadata.labels.tier: "front"
	// remove metadata.labels.app: "web"
	// change spec.ports: [80] -> [80,443]
}

func ExampleDiff_Reduce() {
	created := diff.Of(nil, map[string]any{
		"spec": map[string]any{"size": 5, "zone": "a"},
	})
	fmt.Println(created)
	fmt.Println(created.Reduce("spec", "size"))
	fmt.Println(created.Reduce("status").Empty())
	// Output:
	// add: {"spec":{"size":5,"zone":"a"}}
	// add: 5
	// true
}
