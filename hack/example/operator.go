package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
)

const (
	startTimeout = time.Minute      // limit for the start of the workers
	stopTimeout  = 30 * time.Second // limit for a graceful stop
	quietTime    = time.Second      // time without a new log line after which the operator counts as started
	maxStartLog  = 3 * time.Second  // limit for the wait for quietTime, because some operators log continuously
)

var errEnded = errors.New("the operator has ended")

func (g *stage) build(ctx context.Context) error {
	return g.screen.During(ctx, buildLimit, "Building the operator, "+g.example.Folder, "seconds, or 1 to 2 minutes with an empty cache",
		func(ctx context.Context) error { return program.Build(ctx, g.example.Main(), g.file()) })
}

func (g *stage) file() string { return filepath.Join(g.temp, g.name) }

// start starts the operator. It returns when the operator has started its workers and logs no new lines, or after maxStartLog.
// Operators with webhooks have then written their configurations, so their webhooks receive the creation of the samples.
func (g *stage) start(ctx context.Context) error {
	return g.screen.During(ctx, startTimeout, "Starting the operator", "seconds", func(ctx context.Context) (err error) {
		if g.operator, err = program.Start(g.file(), g.args, "KUBECONFIG="+g.pinned(), "POD_NAMESPACE="+namespace()); err != nil {
			return err
		}
		g.shown = 0
		var began, last time.Time // start of the workers, last log line
		size := 0
		return g.await(ctx, "start of its workers", func(log string) bool {
			if len(log) > size {
				size, last = len(log), time.Now()
			}
			if began.IsZero() && strings.Contains(log, "Starting workers") {
				began = last
			}
			return !began.IsZero() && (time.Since(last) > quietTime || time.Since(began) > maxStartLog)
		})
	})
}

// namespace returns the namespace of an operator that runs outside of a cluster, for the Lease of a shard.
func namespace() string { return cmp.Or(os.Getenv("POD_NAMESPACE"), metav1.NamespaceDefault) }

// await polls until done accepts the log lines that are not printed yet. It returns an error if the operator ends first.
func (g *stage) await(ctx context.Context, what string, done func(log string) bool) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		ended := g.ended() // check this before reading the log, because the operator may log until its end
		if done(strings.Join(g.operator.Lines()[g.shown:], "\n")) {
			return true, nil
		}
		if ended {
			return false, errEnded
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("the log of the operator does not show the %s: %w", what, err)
	}
	return nil
}

// stop stops the operator if it runs.
func (g *stage) stop() error {
	if g.operator == nil {
		return nil
	}
	err := g.operator.Stop(stopTimeout)
	g.printNewLines()
	g.operator = nil
	return err
}

// printNewLines prints new log lines.
func (g *stage) printNewLines() { g.screen.Indent(g.newLines()) }

// newLines returns the log lines since the last call, without the date, the common fields and the omitted fields.
func (g *stage) newLines(omitted ...string) []string {
	lines := g.operator.Lines()[g.shown:]
	g.shown += len(lines)
	return screen.Shortened(lines, append(omitted, "operator", "controller", "controllerGroup", "controllerKind", "kind", "namespace", "uid", "reconcileID")...)
}

func (g *stage) ended() bool {
	select {
	case <-g.operator.Done():
		return true
	default:
		return false
	}
}
