package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// stepLimit is the timeout of a step. A step usually takes a second.
const stepLimit = time.Minute

var errOperatorEnded = errors.New("the operator has ended")

// await polls until missing returns an empty string. The error contains the expected state, the missing part, and the log of the operator.
func (d *demo) await(ctx context.Context, expected string, missing func(context.Context) string) error {
	began := time.Now()
	last := ""
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		// Check first whether the operator has ended, because its last actions may complete the step.
		ended := d.operatorEnded()
		if last = missing(ctx); last != "" && ended {
			return false, errOperatorEnded
		}
		return last == "", nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("expected: %s; after %s: %s (%w). The log of the operator:\n%s", expected,
		time.Since(began).Round(100*time.Millisecond), last, err, strings.Join(d.operator.Lines(), "\n"))
}

func (d *demo) operatorEnded() bool {
	select {
	case <-d.operator.Done():
		return true
	default:
		return false
	}
}
