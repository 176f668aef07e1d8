package kopf_test

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

func ExampleResource_OnField() {
	resize := func(ctx context.Context, req *DatabaseRequest) error {
		before, after := req.Field() // both are JSON values, or nil for an absent field
		log.FromContext(ctx).Info("The size has changed", "before", before, "after", after)
		return nil
	}
	kopf.For(&Database{}).OnField("resize", "spec.size", resize)
}

func ExampleOnChange() {
	databases := kopf.For(&Database{})

	kopf.OnChange(databases, "resize", func(d *Database) int { return d.Spec.Size },
		func(ctx context.Context, req *DatabaseRequest, before, after int) error {
			log.FromContext(ctx).Info("The size has changed", "before", before, "after", after)
			return nil
		})
}

func ExampleField() {
	resize := func(context.Context, *DatabaseRequest) error { return nil }

	kopf.For(&Database{}).
		// The operator calls the handler only if the size has changed. The full id is "resize/spec.size".
		OnUpdate("resize", resize, kopf.Field("spec.size")).
		// The operator calls the handler only for a new object with a size other than 1.
		OnCreate("warn", announce, kopf.Field("spec.size", filter.Not(filter.Equal(1)))).
		// A dot within a key is escaped with a backslash.
		OnField("tier", `metadata.labels.example\.com/tier`, announce)
}

func ExampleField_transition() {
	// The operator calls the handler when the address is set, but not when the address changes or is removed.
	kopf.For(&Database{}).
		OnField("reachable", "status.address", announce, kopf.Field("status.address", filter.From(filter.Absent), filter.To(filter.Present)))
}

func ExampleRequest_Field() {
	kopf.For(&Database{}).
		OnUpdate("resize", func(_ context.Context, req *DatabaseRequest) error {
			if before, after := req.Field(); before == nil || after == nil {
				return nil // the field was added or removed
			}
			for _, item := range req.Diff { // the paths are relative to the field
				_ = item
			}
			return nil
		}, kopf.Field("spec.size"))
}
