package essence_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// The labels of a sharder are not part of the essence, and neither are maps that contain nothing else.
func TestBuild_IgnoresRingLabels(t *testing.T) {
	labeled := func(labels map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "w", "labels": labels}, "spec": map[string]any{"size": int64(1)}}
	}
	spec := map[string]any{"size": int64(1)}
	assigned, drained := sharding.ShardLabel("databases"), sharding.DrainLabel("databases")
	b := essence.Builder{Cleaners: cleaners()}
	for name, c := range map[string]struct{ labels, want map[string]any }{
		"only ring labels": {map[string]any{assigned: "a", drained: "true"}, map[string]any{"spec": spec}},
		"of another ring":  {map[string]any{sharding.ShardLabel("other"): "a"}, map[string]any{"spec": spec}},
		"and other labels": {map[string]any{assigned: "a", "tier": "gold"}, map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "gold"}}, "spec": spec}},
		"similar labels": {
			map[string]any{"shard.example.com/databases": "a"},
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"shard.example.com/databases": "a"}}, "spec": spec},
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := labeled(c.labels)
			before := len(c.labels)
			equal(t, "essence", b.Build(content), c.want)
			if len(c.labels) != before {
				t.Error("Build has changed the object")
			}
			text, err := essence.Encode(map[string]any{"metadata": map[string]any{"labels": c.labels}, "spec": spec})
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := b.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "stored essence of another version", decoded, c.want)
		})
	}
}
