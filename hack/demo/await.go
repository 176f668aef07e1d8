package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// stepLimit is for how long a step may take; it should take a second.
const stepLimit = time.Minute

var errOperatorEnded = errors.New("the operator has ended")

// await polls until nothing is missing any more. The error tells what was expected, what was missing
// in the end, and what the operator has to say.
func (d *demo) await(ctx context.Context, expected string, missing func(context.Context) string) error {
	began := time.Now()
	last := ""
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		// Looked at first: what it has done before its end may be all that is missing.
		ended := d.operatorEnded()
		if last = missing(ctx); last != "" && ended {
			return false, errOperatorEnded
		}
		return last == "", nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("expected: %s; after %s: %s (%w). All of the operator's log:\n%s", expected,
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
