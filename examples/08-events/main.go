// Command 08-events is an operator that only watches objects. It writes nothing to them.
package main

import (
	"context"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, databases()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		OnEvent("observe", observe).
		OnEvent("follow", follow)
}

// observe logs the event. The engine calls it for each observed state of each object, including the last state of a deleted object.
func observe(ctx context.Context, req *Request) error {
	event := req.Event
	if event == "" {
		event = "none, existed before the start" // the object existed before the operator started
	}
	log.FromContext(ctx).Info("Received an event", "event", event, "generation", req.Object.GetGeneration())
	return nil
}

// sizes stores a value for each object in this process, until the object is deleted.
var sizes = kopf.NewMemo[int64]("sizes")

// follow compares the size with the previous size. Event handlers have neither req.Old nor req.Diff, which require a
// stored baseline.
func follow(ctx context.Context, req *Request) error {
	size, _, err := unstructured.NestedInt64(req.Object.Object, "spec", "sizeGiB")
	if err != nil {
		return err // the engine only logs the error, and calls follow again for the next state
	}
	if before, ok := sizes.Load(ctx); ok && before != size {
		log.FromContext(ctx).Info("The size has changed", "before", before, "now", size)
	}
	sizes.Store(ctx, size)
	return nil
}
