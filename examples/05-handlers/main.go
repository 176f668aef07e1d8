// Command 05-handlers is an operator with one handler for each kind of change.
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

// Request is the request that the handlers receive.
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
		NewCache: kopf.NewCache,
		Scheme:   scheme,
		Metrics:  server.Options{BindAddress: "0"},
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
		// The engine calls these handlers once for each new object, in the order of their declaration.
		OnCreate("deploy", deploy).
		OnCreate("welcome", welcome, kopf.After("deploy")). // the engine calls welcome only after deploy has succeeded
		// monitor is for several reasons: each process calls it once for each object.
		On("monitor", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, monitor).
		// The engine calls review for any change outside of the status.
		OnUpdate("review", review).
		// The engine calls scale when the field was added, changed or removed, including when the object is created.
		OnField("scale", "spec.replicas", scale).
		// undeploy blocks the deletion until it has succeeded.
		OnDelete("undeploy", undeploy).
		// purge does not block the deletion.
		OnDelete("purge", purge, kopf.Optional())

	// OnChange is like OnField, but takes a Go function instead of a path. It is not a method, because methods cannot have type
	// parameters.
	return kopf.OnChange(websites, "move", func(site *v1.Website) string { return site.Spec.Domain }, move)
}

func deploy(_ context.Context, req *Request) error {
	req.Object.Status.URL = "https://" + req.Object.Spec.Domain // the engine writes the change
	return nil
}

// welcome receives the changes of the handlers before it.
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
	before, now := req.Field() // before is nil for a new object
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
