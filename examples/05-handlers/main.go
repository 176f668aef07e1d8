// Command 05-handlers is an operator with a handler for each of the things that can happen to an object.
package main

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/05-handlers/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is what the handlers are given.
type Request = kopf.Request[*v1.Website]

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
	if err := kopf.SetupWithManager(mgr, websites()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func websites() *kopf.Resource[*v1.Website] {
	websites := kopf.For(&v1.Website{}).
		// Once in the life of an object. There may be several; they are called in this order.
		OnCreate("deploy", deploy).
		OnCreate("welcome", welcome, kopf.After("deploy")). // not before deploy has succeeded
		// One handler for several reasons: what this process has to know of each object.
		On("monitor", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, monitor).
		// Whatever has changed, but for the status.
		OnUpdate("review", review).
		// One field, whatever has happened: it has come with the object, was changed, or has gone.
		OnField("scale", "spec.replicas", scale).
		// The object waits for this one ...
		OnDelete("undeploy", undeploy).
		// ... but not for this one.
		OnDelete("purge", purge, kopf.Optional())

	// As OnField, with the types of Go instead of a path. This is a function, as methods have no type
	// parameters.
	return kopf.OnChange(websites, "move", func(site *v1.Website) string { return site.Spec.Domain }, move)
}

func deploy(_ context.Context, req *Request) error {
	req.Object.Status.URL = "https://" + req.Object.Spec.Domain // patched by the framework
	return nil
}

// welcome sees what the handlers before it have changed.
func welcome(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Welcome", "url", req.Object.Status.URL)
	return nil
}

func monitor(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Monitoring the website", "cause", req.Reason)
	return nil
}

func review(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("The website has changed", "diff", req.Diff.String())
	return nil
}

func scale(ctx context.Context, req *Request) error {
	before, now := req.Field() // nil before it was created
	log.FromContext(ctx).Info("Scaling", "from", before, "to", now)
	return nil
}

func move(ctx context.Context, req *Request, before, now string) error {
	log.FromContext(ctx).Info("Moving", "from", before, "to", now)
	req.Object.Status.URL = "https://" + now
	return nil
}

func undeploy(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Taking the website down")
	return nil
}

func purge(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Purging the web cache")
	return nil
}
