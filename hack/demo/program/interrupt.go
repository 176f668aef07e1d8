package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// UntilInterrupted returns the context of a command: done with Ctrl-C, or when its terminal or its starter is gone. A
// second Ctrl-C ends the process at once; even then nothing stays behind.
func UntilInterrupted() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	go whenOrphaned(ctx, stop)
	return ctx
}

// whenOrphaned calls the function when the process that has started this one is gone: "go run" and make, when they are
// killed, do not tell their children.
func whenOrphaned(ctx context.Context, end func()) {
	parent := os.Getppid()
	if wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) {
		return os.Getppid() != parent, nil
	}) == nil {
		end()
	}
}
