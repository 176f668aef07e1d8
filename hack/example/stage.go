package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A stage is one run of an example.
type stage struct {
	choice
	screen   *screen.Screen
	temp     string                     // temporary directory
	cp       *controlplane.ControlPlane // nil for the cluster of kubectl
	access   string                     // path of the kubeconfig for other terminals
	client   client.Client
	operator *program.Program // nil while it is stopped
	shown    int              // number of printed log lines
}

// run runs an example until the context is cancelled.
func run(ctx context.Context, s *screen.Screen, c choice) error {
	g := &stage{choice: c, screen: s}
	err := g.runExample(ctx)
	if ctx.Err() != nil {
		s.Say("\nStopping everything.")
		err = nil // the interrupt caused the error
	}
	return errors.Join(err, g.cleanUp())
}

func (g *stage) runExample(ctx context.Context) (err error) {
	g.screen.Bold(g.example.Name + ": " + g.example.About)
	if g.temp, err = os.MkdirTemp("", "kopf-example-"); err != nil {
		return err
	}
	if g.cluster == kubeconfig { // fail early if the cluster is unavailable
		if err := g.takeCluster(); err != nil {
			return err
		}
	}
	if err := g.build(ctx); err != nil {
		return err
	}
	if g.cluster == own {
		if err := g.makeCluster(ctx); err != nil {
			return err
		}
	}
	if err := g.connect(); err != nil {
		return err
	}
	if err := g.prepare(ctx); err != nil {
		return err
	}
	if err := g.start(ctx); err != nil {
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
	buildLimit   = 15 * time.Minute // for a small machine with an empty cache
	startLimit   = 3 * time.Minute  // longer than the timeouts of the control plane, which has better error messages
	installLimit = time.Minute
)
