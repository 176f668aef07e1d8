package kopf_test

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func ExampleRetries() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Retries(5), kopf.Backoff(10*time.Second))
}

func ExampleTimeout() {
	kopf.For(&Database{}).
		// The operator retries the handler for one hour. Each attempt has a timeout of one minute.
		OnCreate("provision", provision, kopf.Timeout(time.Hour), kopf.AttemptTimeout(time.Minute))
}

func ExampleAttemptTimeout() {
	kopf.For(&Database{}).
		OnCreate("provision", func(ctx context.Context, req *DatabaseRequest) error {
			_, err := cloud.Ensure(ctx, req.Object.Name, req.Object.Spec.Size) // the call ends with the context
			return err
		}, kopf.AttemptTimeout(30*time.Second))
}

func ExampleBackoff() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Backoff(10*time.Second)).
		OnUpdate("announce", announce, kopf.BackoffFunc(progress.Exponential(time.Second, 5*time.Minute)))
}

func ExampleBackoffFunc() {
	patient := func(a progress.Attempt, err error) time.Duration {
		if apierrors.IsServiceUnavailable(err) {
			return time.Minute
		}
		return progress.Exponential(time.Second, 5*time.Minute)(a, err)
	}
	kopf.For(&Database{}).OnCreate("provision", provision, kopf.BackoffFunc(patient))
}

func ExampleRequest_attempt() {
	kopf.For(&Database{}).
		OnCreate("provision", func(ctx context.Context, req *DatabaseRequest) error {
			if req.Attempt.Number > 0 {
				req.Eventf("Warning", "Retry", "Provision", "attempt %d, after %s: %s",
					req.Attempt.Number+1, req.Attempt.Runtime().Round(time.Second), req.Attempt.Last)
			}
			return provision(ctx, req)
		})
}

func ExampleErrorMode() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.ErrorMode(progress.ErrorsTemporary)). // the default: the handler is retried after the backoff
		OnUpdate("announce", announce, kopf.ErrorMode(progress.ErrorsIgnored)).     // the error is logged, and the handler succeeds
		OnDelete("drop", drop, kopf.ErrorMode(progress.ErrorsPermanent))            // the error is logged, and the handler fails
}

func ExampleAfter() {
	kopf.For(&Database{}).
		OnCreate("provision", provision).
		OnCreate("announce", announce, kopf.After("provision"))
}

func ExampleOptional() {
	kopf.For(&Database{}).
		OnDelete("goodbye", announce, kopf.Optional()) // the handler does not block the deletion
}

func ExampleEvenIfDeleted() {
	kopf.For(&Database{}).
		OnResume("reconnect", announce, kopf.EvenIfDeleted()).
		OnDelete("drop", drop)
}

// The operator writes changes to req.Object even if the handler fails, so the handler can report its failure.
func ExampleRequest() {
	kopf.For(&Database{}).
		OnCreate("provision", func(_ context.Context, req *DatabaseRequest) error {
			if req.Object.Spec.Size > 1000 {
				req.Object.Status.Address = "none: too large"
				return kopf.Permanent(errors.New("spec.size must be 1000 or less"))
			}
			return nil
		})
}
