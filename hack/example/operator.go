package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
)

const (
	startTimeout = time.Minute      // for the start of the workers
	stopTimeout  = 30 * time.Second // for a graceful stop
	quietTime    = time.Second      // time without a new log line after which the operator counts as started
	maxStartLog  = 3 * time.Second  // maximum wait for quietTime: some operators log all the time
)

var errEnded = errors.New("the operator has ended")

func (g *stage) build(ctx context.Context) error {
	return g.screen.During(ctx, buildLimit, "Building the operator, "+g.example.Folder, "seconds, or 1 to 2 minutes with an empty cache",
		func(ctx context.Context) error { return program.Build(ctx, g.example.Main(), g.file()) })
}

func (g *stage) file() string { return filepath.Join(g.temp, g.name) }

// start returns when the operator has started its workers and logs nothing new. Operators with webhooks then have written their configurations, so
// they see the creation of the samples.
func (g *stage) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	g.shown = 0
	g.screen.Heading(strings.Join(append([]string{"The log of the operator:", g.name}, g.args...), " "))
	if g.operator, err = program.Start(g.file(), g.args, "KUBECONFIG="+g.pinned()); err != nil {
		return err
	}
	var began, last time.Time // start of the workers, last log line
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		ended := g.ended() // before the log is read: the operator may log until its end
		for _, line := range g.printNewLines() {
			last = time.Now()
			if began.IsZero() && strings.Contains(line, "Starting workers") {
				began = last
			}
		}
		if ended {
			return false, errEnded
		}
		return !began.IsZero() && (time.Since(last) > quietTime || time.Since(began) > maxStartLog), nil
	})
	if err != nil {
		return fmt.Errorf("the operator has not started its workers, see its log above: %w", err)
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

// printNewLines prints new log lines and returns them.
func (g *stage) printNewLines() []string {
	lines := g.operator.Lines()[g.shown:]
	g.shown += len(lines)
	for _, line := range screen.Shortened(lines, "operator", "controller", "controllerGroup", "controllerKind", "kind", "namespace", "uid", "reconcileID") {
		g.screen.Say("  " + line)
	}
	return lines
}

func (g *stage) ended() bool {
	select {
	case <-g.operator.Done():
		return true
	default:
		return false
	}
}
