package kopf_test

import (
	"context"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// ACT-04: what the startup has still to do is a part of the start.
func TestReadyz_DuringStartup(t *testing.T) {
	var operator *kopf.Operator
	var ready, healthy error
	operator = newOperator(&fakeManager{}, kopf.OnStartup("ask", func(context.Context) error {
		ready, healthy = operator.Readyz(nil), operator.Healthz(nil)
		return nil
	}))
	equal(t, "one that waits to become the leader is ready", operator.Readyz(nil), error(nil))
	equal(t, "and healthy", operator.Healthz(nil), error(nil))
	_ = operator.Start(t.Context())
	if ready == nil {
		t.Error("ACT-04: one that is starting is said to be ready")
	}
	equal(t, "one that is starting is healthy", healthy, error(nil))
	equal(t, "one that has ended is healthy", operator.Healthz(nil), error(nil))
}
