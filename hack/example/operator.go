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
	patience = time.Minute      // for the operator to be at work
	farewell = 30 * time.Second // for its end
	quiet    = time.Second      // without a new line, it has said what it has to say for now
	talk     = 3 * time.Second  // that long at most: some are never quiet
)

var errEnded = errors.New("the operator has ended by itself")

func (g *stage) build(ctx context.Context) error {
	return g.screen.During(ctx, buildLimit, "Building the operator, "+g.example.Folder, "seconds, or 1 to 2 minutes when nothing is cached",
		func(ctx context.Context) error { return program.Build(ctx, g.example.Main(), g.file()) })
}

func (g *stage) file() string { return filepath.Join(g.temp, g.name) }

// start returns when the operator is at work, and has gone quiet: those who have webhooks write their configurations by
// themselves, and what is created before is not shown to them.
func (g *stage) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g.shown = 0
	g.screen.Heading(strings.Join(append([]string{"The operator's log:", g.name}, g.args...), " "))
	if g.operator, err = program.Start(g.file(), g.args, "KUBECONFIG="+g.pinned()); err != nil {
		return err
	}
	var began, last time.Time // of its work; of its last line
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		ended := g.ended() // looked at first: it may log until its end
		for _, line := range g.news() {
			last = time.Now()
			if began.IsZero() && strings.Contains(line, "Starting workers") {
				began = last
			}
		}
		if ended {
			return false, errEnded
		}
		return !began.IsZero() && (time.Since(last) > quiet || time.Since(began) > talk), nil
	})
	if err != nil {
		return fmt.Errorf("the operator does not begin to work, see its log above: %w", err)
	}
	return nil
}

// stop ends the operator, if it runs.
func (g *stage) stop() error {
	if g.operator == nil {
		return nil
	}
	err := g.operator.Stop(farewell)
	g.news()
	g.operator = nil
	return err
}

// news shows what the operator has logged since the last look.
func (g *stage) news() []string {
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
