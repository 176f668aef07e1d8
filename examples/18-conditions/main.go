// Command 18-conditions is an operator whose objects say how they are, for people and for their tools.
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
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
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
	either := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
	// There from the first visit on, Unknown until somebody says more. Ready sums up the others.
	return kopf.For(&v1.Bucket{}, kopf.WithConditions("Ready", "Created", "Filled", "Reachable", "Sized")).
		// Says nothing itself: its condition tells how far it is.
		OnCreate("create", create, kopf.ReportCondition("Created"), kopf.Backoff(3*time.Second)).
		// Says how far it is while it works.
		OnCreate("fill", fill, kopf.After("create")).
		// Says by its error what is wrong.
		On("connect", either, connect, kopf.Field("spec.store"), kopf.Backoff(time.Second)).
		// Fails for good if too much is asked for.
		On("resize", either, resize, kopf.Field("spec.sizeGiB"), kopf.ReportCondition("Sized")).
		// Is called when Ready changes, whoever changes it.
		OnCondition("announce", "Ready", announce).
		// Is called for those only that are not ready.
		Timer("remind", 3*time.Second, remind, kopf.WhenCondition("Ready", metav1.ConditionFalse))
}
