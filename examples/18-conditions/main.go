// Command 18-conditions is an operator that maintains status conditions for users and their tools.
package main

import (
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/18-conditions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

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
	if err := kopf.SetupWithManager(mgr, buckets()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func buckets() *kopf.Resource[*v1.Bucket] {
	// All objects have these conditions after the first reconcile, Unknown at first. Ready summarizes the others.
	return kopf.For(&v1.Bucket{}, kopf.WithConditions("Ready", "Created", "Filled", "Reachable", "Sized")).
		// The engine sets the condition from the progress of the handler.
		OnCreate("create", create, kopf.ReportCondition("Created"), kopf.Backoff(3*time.Second)).
		// fill sets the condition while it runs.
		OnCreate("fill", fill, kopf.After("create")).
		// connect sets the condition by returning a conditions.Error, or directly when it succeeds.
		OnCreateOrUpdate("connect", connect, kopf.Field("spec.store"), kopf.Backoff(time.Second)).
		// resize fails permanently if the size is too large.
		OnCreateOrUpdate("resize", resize, kopf.Field("spec.sizeGiB"), kopf.ReportCondition("Sized")).
		// The engine calls announce for each change of Ready, regardless of which client made it.
		OnCondition("announce", "Ready", announce).
		// The engine calls remind only for objects that are not ready.
		Timer("remind", daemons.Timer{Interval: 3 * time.Second}, remind, kopf.WhenCondition("Ready", metav1.ConditionFalse))
}
