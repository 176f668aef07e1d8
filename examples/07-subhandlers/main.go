// Command 07-subhandlers is an operator that does one thing for each item of a list, with retries and a
// progress for each of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/07-subhandlers/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is what the handlers are given.
type Request = kopf.Request[*v1.Rollout]

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, rollouts()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func rollouts() *kopf.Resource[*v1.Rollout] {
	always := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
	return kopf.For(&v1.Rollout{}).
		On("roll", always, roll).
		On("report", always, report, kopf.After("roll"))
}

// roll declares a sub-handler for each region; they are called when it has returned. It is called again, and declares
// the same, until all of them are done. It also removes regions from the status that the spec does not have any more.
func roll(_ context.Context, req *Request) error {
	maps.DeleteFunc(req.Object.Status.Regions, func(region, _ string) bool { return !slices.Contains(req.Object.Spec.Regions, region) })
	for _, region := range req.Object.Spec.Regions {
		req.Sub(region, deploy(region), kopf.Retries(5))
	}
	return nil
}

// deploy makes the handler for one region. Its attempts are its own: those of other regions do not count.
func deploy(region string) kopf.Handler[*v1.Rollout] {
	return func(ctx context.Context, req *Request) error {
		latency, ok := regions[region]
		if !ok {
			return kopf.Permanent(fmt.Errorf("there is no region %q", region))
		}
		if req.Attempt.Runtime() < latency {
			return kopf.Temporary(errors.New("the servers are still booting"), latency)
		}
		if req.Object.Status.Regions == nil {
			req.Object.Status.Regions = map[string]string{}
		}
		req.Object.Status.Regions[region] = req.Object.Spec.Image // each adds its own key: nothing is lost
		log.FromContext(ctx).Info("Deployed", "region", region, "image", req.Object.Spec.Image)
		return nil
	}
}

// report says whether all is well. The framework does not: roll has succeeded when its sub-handlers are
// done, be it that they have failed.
func report(_ context.Context, req *Request) error {
	for _, region := range req.Object.Spec.Regions {
		if req.Object.Status.Regions[region] != req.Object.Spec.Image {
			return kopf.Permanent(fmt.Errorf("%s does not run in %s", req.Object.Spec.Image, region))
		}
	}
	return nil
}

// regions there are, with how long it takes to get servers there.
var regions = map[string]time.Duration{"amsterdam": 0, "mumbai": time.Second, "tokyo": 3 * time.Second}
