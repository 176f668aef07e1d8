// Command 19-kinds is an operator that registers the objects of all kinds of a group, also of kinds that are installed later.
package main

import (
	"context"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// registeredLabel is the label of objects that are registered.
const registeredLabel = "shop.example.com/registered"

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
	if err := kopf.SetupWithManager(mgr, goods()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// goods declares all kinds of the group. The operator watches only the metadata of their objects.
func goods() kopf.Option {
	return kopf.ForKinds(kopf.Kinds("*.shop.example.com"), func(kind metav1.APIResource) kopf.Option {
		gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
		return kopf.For(kopf.Metadata(gvk)).OnCreate("register", register).OnDelete("deregister", deregister)
	})
}

type request = kopf.Request[*metav1.PartialObjectMetadata]

func register(ctx context.Context, req *request) error {
	metav1.SetMetaDataLabel(&req.Object.ObjectMeta, registeredLabel, "true")
	log.FromContext(ctx).Info("Registered", "of", req.Object.Kind)
	return nil
}

func deregister(ctx context.Context, req *request) error {
	log.FromContext(ctx).Info("Deregistered", "of", req.Object.Kind)
	return nil
}
