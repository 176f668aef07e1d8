package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A stage is one run of an example.
type stage struct {
	choice
	screen   *screen.Screen
	temp     string                     // temporary directory
	cp       *controlplane.ControlPlane // nil for the cluster of kubectl
	audit    *controlplane.AuditTail    // requests in the log of the control plane
	access   string                     // path of the kubeconfig for other terminals
	client   client.Client
	operator *program.Program // nil while it is stopped
	shown    int              // number of printed log lines
}

var errInterrupted = errors.New("interrupted; everything was stopped")

// run runs an example until the context is cancelled, or the demo.
func run(ctx context.Context, s *screen.Screen, c choice) error {
	g := &stage{choice: c, screen: s}
	title, script := g.example.Name+": "+g.example.About, g.runExample
	if g.demo {
		title, script = "A small operator on a real API server on this machine", g.runDemo
	}
	s.Bold(title)
	err := g.setUp(ctx)
	isSetUp := err == nil
	if isSetUp {
		err = script(ctx)
	}
	if ctx.Err() != nil {
		s.Say("\nStopping everything.")
		switch { // the interrupt caused the error
		case isSetUp && !g.demo:
			err = nil // the regular end of an example
		case err != nil:
			err = errInterrupted
		}
	}
	return errors.Join(err, g.cleanUp())
}

// setUp builds the operator, provides the cluster with the CRDs, and starts the operator.
func (g *stage) setUp(ctx context.Context) (err error) {
	if g.temp, err = os.MkdirTemp("", "kopf-example-"); err != nil {
		return err
	}
	g.screen.Heading("Setup")
	steps := []func(context.Context) error{g.build, g.makeCluster, g.connect, g.prepare, g.start}
	if g.cluster == kubeconfig { // connect first, because the cluster may be unavailable
		steps = []func(context.Context) error{g.takeCluster, g.build, g.connect, g.prepare, g.start}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runExample creates the samples and shows the log until the context is cancelled.
func (g *stage) runExample(ctx context.Context) error {
	g.screen.Heading(strings.Join(append([]string{"The log of the operator and the samples:", g.name}, g.args...), " "))
	if err := g.showNew(); err != nil {
		return err
	}
	if err := g.applySamples(ctx); err != nil {
		return err
	}
	if err := g.explain(); err != nil {
		return err
	}
	return g.follow(ctx)
}

// cleanUp stops everything in the opposite order of its start.
func (g *stage) cleanUp() error {
	problems := []error{g.stop(), g.cp.Stop()}
	if g.temp != "" {
		problems = append(problems, os.RemoveAll(g.temp))
	}
	return errors.Join(problems...)
}

// pinned returns the path of a kubeconfig with only one cluster, so that later changes of the user's file have no effect.
func (g *stage) pinned() string { return filepath.Join(g.temp, "kubeconfig") }

const (
	buildLimit   = 15 * time.Minute // limit for a small machine with an empty build cache
	startLimit   = 3 * time.Minute  // limit above the timeouts of the control plane, because their error messages are better
	installLimit = time.Minute
)
