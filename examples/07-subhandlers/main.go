// Command 07-subhandlers is an operator that handles each item of a list separately, with its own retries and its own
// record.
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

// Request is the request that the handlers receive.
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
		NewCache: kopf.NewCache,
		Scheme:   scheme,
		Metrics:  server.Options{BindAddress: "0"},
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
	return kopf.For(&v1.Rollout{}).
		OnCreateOrUpdate("roll", roll).
		OnCreateOrUpdate("report", report, kopf.After("roll"))
}

// roll declares a sub-handler for each region. The engine calls them when roll has returned, and calls roll again until
// all of them have finished. It also removes regions from the status that are no longer in the spec.
func roll(_ context.Context, req *Request) error {
	maps.DeleteFunc(req.Object.Status.Regions, func(region, _ string) bool { return !slices.Contains(req.Object.Spec.Regions, region) })
	for _, region := range req.Object.Spec.Regions {
		req.Sub(region, deploy(region), kopf.Retries(5))
	}
	return nil
}

// deploy returns the handler of one region. Each region has its own count of attempts.
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
		req.Object.Status.Regions[region] = req.Object.Spec.Image // each sub-handler writes its own key, so no write is lost
		log.FromContext(ctx).Info("Deployed", "region", region, "image", req.Object.Spec.Image)
		return nil
	}
}

// report fails if an image does not run in all regions. The engine does not check this: roll succeeds when its
// sub-handlers have finished, even if they failed.
func report(_ context.Context, req *Request) error {
	for _, region := range req.Object.Spec.Regions {
		if req.Object.Status.Regions[region] != req.Object.Spec.Image {
			return kopf.Permanent(fmt.Errorf("%s does not run in %s", req.Object.Spec.Image, region))
		}
	}
	return nil
}

// regions are the known regions, with the time until their servers are ready.
var regions = map[string]time.Duration{"amsterdam": 0, "mumbai": time.Second, "tokyo": 3 * time.Second}
