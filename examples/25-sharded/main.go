// Command 25-sharded is an operator whose replicas share the databases of a cluster.
package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// ring is the name of the ControllerRing in config/samples.
const ring = "databases"

func main() {
	var options []sharding.Option
	add := func(option func(string) sharding.Option) func(string) error {
		return func(value string) error {
			options = append(options, option(value))
			return nil
		}
	}
	flag.Func("shard", "name of the shard, for a process outside of a pod", add(sharding.ShardName))
	flag.Func("lease-namespace", "namespace of the Lease, for a process outside of a pod", add(sharding.LeaseNamespace))
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(options); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(options []sharding.Option) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator(options...)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// operator shares its databases with the other replicas. In a pod, the shard has the name of the pod.
func operator(options ...sharding.Option) []kopf.Option {
	return []kopf.Option{databases(), kopf.WithSharding(sharding.ControllerRing(ring, options...))}
}

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", provision).
		OnUpdate("resize", resize, kopf.Field("spec.sizeGiB")).
		OnResume("reconnect", reconnect).        // the next shard calls it after a move
		Daemon("watch", daemons.Daemon{}, watch) // ends before the object moves
}

func provision(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Provisioning")
	return nil
}

func resize(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Resizing", "from", req.Diff[0].Old, "to", req.Diff[0].New)
	return nil
}

func reconnect(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Reconnecting")
	return nil
}

func watch(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Watching")
	<-ctx.Done()
	log.FromContext(ctx).Info("Stopped watching", "why", context.Cause(ctx).Error())
	return nil
}
