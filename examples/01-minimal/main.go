// Command 01-minimal is an operator in one file. It logs changes of databases.
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

// Request is the request that the handlers receive: the object, its previous state, the difference, and more.
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
	if err := mgr.Add(kopf.New(mgr, databases())); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// databases declares the handlers. The tests also call it.
func databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", provision).
		OnUpdate("change", change).
		OnDelete("drop", drop)
}

func provision(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("A new database", "spec", req.Object.Object["spec"])
	req.SetResult(map[string]any{"host": req.Object.GetName() + ".db.example.com"}) // status.provision.host
	return nil
}

func change(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("The database has changed", "diff", req.Diff.String())
	return nil
}

func drop(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Dropping the database") // the finalizer blocks the deletion until drop has succeeded
	return nil
}
