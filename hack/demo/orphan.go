package main

import (
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// whenOrphaned ends the demo when the process that has started it is gone: "go run" and make, when
// they are killed, do not tell their children.
func whenOrphaned(ctx context.Context, cancel context.CancelFunc) {
	parent := os.Getppid()
	_ = wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) {
		return os.Getppid() != parent, nil
	})
	cancel()
}
