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

// A stage is what an example is played on.
type stage struct {
	choice
	screen   *screen.Screen
	temp     string                     // folder
	cp       *controlplane.ControlPlane // nil on the cluster of kubectl
	access   string                     // the kubeconfig to be used by people in other terminals
	client   client.Client
	operator *program.Program // nil while it is stopped
	shown    int              // lines of its log
}

// run plays an example until the context is done, which is its regular end.
func run(ctx context.Context, s *screen.Screen, c choice) error {
	g := &stage{choice: c, screen: s}
	err := g.play(ctx)
	if ctx.Err() != nil {
		s.Say("\nThe end: all that was started here is being stopped.")
		err = nil // whatever failed, failed because of it
	}
	return errors.Join(err, g.cleanUp())
}

func (g *stage) play(ctx context.Context) (err error) {
	g.screen.Bold(g.example.Name + ": " + g.example.About)
	if g.temp, err = os.MkdirTemp("", "kopf-example-"); err != nil {
		return err
	}
	if g.cluster == kubeconfig { // said before anything else is done
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

// cleanUp stops what was started, in the opposite order.
func (g *stage) cleanUp() error {
	problems := []error{g.stop(), g.cp.Stop()}
	if g.temp != "" {
		problems = append(problems, os.RemoveAll(g.temp))
	}
	return errors.Join(problems...)
}

// pinned is the kubeconfig of the operator: it has one cluster only, whatever becomes of the user's file.
func (g *stage) pinned() string { return filepath.Join(g.temp, "kubeconfig") }

const (
	buildLimit   = 15 * time.Minute // nothing may be cached, and the machine may be small
	startLimit   = 3 * time.Minute  // the control plane has its own limits, and better errors
	installLimit = time.Minute
)
