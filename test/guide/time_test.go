package guide

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type ConfigMapRequest = kopf.Request[*corev1.ConfigMap]

// patient fails permanently after a day of retries.
func patient(_ context.Context, req *ConfigMapRequest) error {
	if req.Attempt.Runtime() > 24*time.Hour {
		return kopf.Permanent(errors.New("no answer for a day"))
	}
	return kopf.Temporary(errors.New("no answer"), time.Hour)
}

func TestRetries_EndAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock advances when all goroutines wait
		obj, attempts := &corev1.ConfigMap{}, 0
		step := progress.Step{ID: "patient", Do: func(ctx context.Context, attempt progress.Attempt) error {
			attempts++
			return patient(ctx, &ConfigMapRequest{Object: obj, Reason: kopf.ReasonCreate, Attempt: attempt})
		}}
		for {
			report, err := progress.Run(t.Context(), progress.Annotations("example.com"), obj, "create", step)
			if err != nil {
				t.Fatal(err)
			}
			if report.Done {
				break
			}
			<-time.After(report.RequeueAfter)
		}
		if attempts != 26 {
			t.Errorf("got %d attempts, want 26", attempts)
		}
	})
}
