package kopf_test

import (
	"context"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// ACT-04: the operator is not ready while startup activities run.
func TestReadyz_DuringStartup(t *testing.T) {
	var operator *kopf.Operator
	var ready, healthy error
	operator = newOperator(&fakeManager{}, kopf.OnStartup("ask", func(context.Context) error {
		ready, healthy = operator.Readyz(nil), operator.Healthz(nil)
		return nil
	}))
	equal(t, "ready before the start", operator.Readyz(nil), error(nil))
	equal(t, "healthy before the start", operator.Healthz(nil), error(nil))
	_ = operator.Start(t.Context())
	if ready == nil {
		t.Error("ACT-04: Readyz returned no error during the startup")
	}
	equal(t, "healthy during the startup", healthy, error(nil))
	equal(t, "healthy after the stop", operator.Healthz(nil), error(nil))
}
