package main

import (
	"context"
	"errors"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A demo contains the state of the steps.
type demo struct {
	screen   *screen.Screen
	cp       *controlplane.ControlPlane
	operator *program.Program
	user     client.Client // for the actions of the user
	log      *logTail
	requests *requestTail
	sample   *unstructured.Unstructured
	temp     string // temporary directory
}

var errInterrupted = errors.New("interrupted; everything was stopped")

// run runs the whole demo.
func run(ctx context.Context, s *screen.Screen, keep bool) error {
	d := &demo{screen: s}
	err := d.show(ctx, keep)
	if err != nil && ctx.Err() != nil {
		err = errInterrupted // the interrupt caused the error
	}
	return errors.Join(err, d.cleanUp())
}

func (d *demo) show(ctx context.Context, keep bool) error {
	d.screen.Bold("An operator in less than 60 lines on a real API server on this machine")
	if err := d.setUp(ctx); err != nil {
		return err
	}
	for i, step := range d.steps() {
		if err := d.runStep(ctx, i+1, step); err != nil {
			return err
		}
	}
	if keep {
		return d.keep(ctx)
	}
	d.screen.Heading("End of the demo")
	d.screen.Say("The operator is examples/01-minimal/main.go.\nTo try it with kubectl: make demo KEEP=1")
	return nil
}

// cleanUp stops everything in the opposite order of its start.
func (d *demo) cleanUp() error {
	var problems []error
	if d.operator != nil {
		problems = append(problems, d.operator.Stop(10*time.Second))
	}
	problems = append(problems, d.cp.Stop())
	if d.temp != "" {
		problems = append(problems, os.RemoveAll(d.temp))
	}
	return errors.Join(problems...)
}
