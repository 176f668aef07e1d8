package main

import (
	"context"
	"errors"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// example is the operator that is shown.
const example = "github.com/kopf-runtime/kopf-runtime/examples/01-minimal"

var errInterrupted = errors.New("interrupted")

// A demo is what the steps work with.
type demo struct {
	screen *screen
	folder string // of the example
	temp   string

	cp       *controlplane.ControlPlane
	operator *program.Program
	you      client.Client // what the person in front of the screen would do with kubectl
	requests *controlplane.AuditTail

	logged int // lines of the operator's log that were looked at
}

// run is the whole demo.
func run(ctx context.Context, s *screen, keep bool) (err error) {
	d := &demo{screen: s}
	defer func() {
		err = errors.Join(err, d.cleanUp())
		if ctx.Err() != nil && !errors.Is(err, errEnough) {
			err = errInterrupted // whatever else went wrong, went wrong because of it
		}
	}()
	if err := d.setUp(ctx); err != nil {
		return err
	}
	sample, err := d.sample()
	if err != nil {
		return err
	}
	for i, step := range steps(d, sample) {
		if err := d.take(ctx, i+1, step); err != nil {
			return err
		}
	}
	if keep {
		return d.keep(ctx, sample)
	}
	d.screen.say("\nThat was it. The operator: examples/01-minimal/main.go. To try it out yourself: make demo KEEP=1")
	return nil
}

// cleanUp stops what was started, in the opposite order.
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
