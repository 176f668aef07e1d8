package kopf_test

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleResource_OnField() {
	resize := func(ctx context.Context, req *DatabaseRequest) error {
		before, after := req.Field() // in their JSON form; nil: there was none, there is none
		log.FromContext(ctx).Info("The size", "before", before, "after", after)
		return nil
	}
	kopf.For(&Database{}).OnField("resize", "spec.size", resize)
}

func ExampleOnChange() {
	databases := kopf.For(&Database{})

	kopf.OnChange(databases, "resize", func(d *Database) int { return d.Spec.Size },
		func(ctx context.Context, req *DatabaseRequest, before, after int) error {
			log.FromContext(ctx).Info("The size", "before", before, "after", after)
			return nil
		})
}

func ExampleField() {
	resize := func(context.Context, *DatabaseRequest) error { return nil }

	kopf.For(&Database{}).
		// Only if the size has changed. The full id is "resize/spec.size".
		OnUpdate("resize", resize, kopf.Field("spec.size")).
		// Only if there is such a size when the object is created.
		OnCreate("warn", announce, kopf.Field("spec.size", kopf.Not(kopf.Equal(1)))).
		// A dot within a key is escaped.
		OnField("tier", `metadata.labels.example\.com/tier`, announce)
}

func ExampleFrom() {
	kopf.For(&Database{}).
		OnField("started", "status.phase", announce, kopf.Field("status.phase", kopf.From("Pending"), kopf.To("Running"))).
		OnField("failed", "status.phase", announce, kopf.Field("status.phase", kopf.From(kopf.Not(kopf.Equal("Failed"))), kopf.To("Failed")))
}

func ExampleTo() {
	// When an address comes, and only then: not when it changes, or goes.
	kopf.For(&Database{}).
		OnField("reachable", "status.address", announce, kopf.Field("status.address", kopf.From(kopf.Absent), kopf.To(kopf.Present)))
}

func ExampleRequest_Field() {
	kopf.For(&Database{}).
		OnUpdate("resize", func(_ context.Context, req *DatabaseRequest) error {
			if before, after := req.Field(); before == nil || after == nil {
				return nil // it has come, or gone
			}
			for _, item := range req.Diff { // below the field
				_ = item
			}
			return nil
		}, kopf.Field("spec.size"))
}
