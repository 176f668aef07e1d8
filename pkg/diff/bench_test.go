package diff_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// mediumObject returns an object with about two hundred values, like a typical workload.
func mediumObject() map[string]any {
	var containers []any
	for i := range 5 {
		var env []any
		for j := range 10 {
			env = append(env, map[string]any{"name": fmt.Sprintf("VAR_%d", j), "value": "some value"})
		}
		containers = append(containers, map[string]any{
			"name":      fmt.Sprintf("container-%d", i),
			"image":     "registry.example.com/team/app:v1.2.3",
			"env":       env,
			"ports":     []any{map[string]any{"containerPort": int64(8080 + i), "protocol": "TCP"}},
			"resources": map[string]any{"limits": map[string]any{"cpu": 0.5, "memory": "1Gi"}},
			"tty":       false,
			"weight":    json.Number("12.5"),
			"unset":     nil,
		})
	}
	labels := map[string]any{}
	for i := range 20 {
		labels[fmt.Sprintf("example.com/label-%d", i)] = fmt.Sprintf("value-%d", i)
	}
	return map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": map[string]any{}},
		"spec": map[string]any{
			"replicas": int64(3),
			"template": map[string]any{"spec": map[string]any{"containers": containers}},
		},
	}
}

func BenchmarkEqual(b *testing.B) {
	x, y := mediumObject(), mediumObject()
	b.ReportAllocs()
	for b.Loop() {
		if !diff.Equal(x, y) {
			b.Fatal("the objects are not equal")
		}
	}
}

func BenchmarkOf(b *testing.B) {
	x, y := mediumObject(), mediumObject()
	b.ReportAllocs()
	for b.Loop() {
		if !diff.Of(x, y).Empty() {
			b.Fatal("the objects are not equal")
		}
	}
}
