package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// UntilInterrupted returns a context that is cancelled by Ctrl-C or SIGTERM, or when the terminal or the parent process ends. A
// second Ctrl-C ends the process immediately.
func UntilInterrupted() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	go whenOrphaned(ctx, stop)
	return ctx
}

// whenOrphaned calls end when the parent process has ended. When "go run" or make is killed, its child processes receive no
// signal.
func whenOrphaned(ctx context.Context, end func()) {
	parent := os.Getppid()
	if wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) {
		return os.Getppid() != parent, nil
	}) == nil {
		end()
	}
}
