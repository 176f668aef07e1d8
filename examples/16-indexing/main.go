// Command 16-indexing is an operator that finds objects by their content, without requests to the API server.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/16-indexing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

const (
	// restarts is the label of config maps whose changes restart their apps.
	restarts = "indexing.example.com/restarts"
	// restartedFor is the annotation of apps with the hash of the data in their config map.
	restartedFor = "indexing.example.com/restarted-for"
)

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	if err := v1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator()...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// operator declares the resources, which share the index.
func operator() []kopf.Option {
	apps := kopf.For(&v1.App{})
	// The engine completes the index before it calls the first handler, and then updates it with the apps.
	byConfig := kopf.IndexBy(apps, "by-config", func(_ context.Context, req *kopf.Request[*v1.App]) (map[types.NamespacedName]string, error) {
		app := req.Object
		return map[types.NamespacedName]string{{Namespace: app.Namespace, Name: app.Spec.Config}: app.Name}, nil
	}, kopf.Field("spec.config")) // this filter excludes apps without a config map
	apps.OnCreate("start", start).
		OnUpdate("restart", restart, kopf.Field(`metadata.annotations.indexing\.example\.com/restarted-for`))

	configs := kopf.For(&corev1.ConfigMap{}).
		OnUpdate("spread", spread(byConfig), kopf.Label(restarts), kopf.Field("data"))
	return []kopf.Option{apps, configs}
}

// spread returns a handler that annotates the apps of a changed config map.
func spread(byConfig *kopf.Index[types.NamespacedName, string]) kopf.Handler[*corev1.ConfigMap] {
	return func(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
		names := byConfig.Get(client.ObjectKeyFromObject(req.Object))
		slices.Sort(names)
		log.FromContext(ctx).Info("The config map has changed", "diff", req.Diff.String(), "apps", names)
		for _, name := range names {
			app := &v1.App{}
			app.Namespace, app.Name = req.Object.Namespace, name
			// A retry writes the same hash, so it does not restart the app again. A resourceVersion could
			// differ.
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, restartedFor, hash(req.Object.Data))
			// Another client may have deleted the app. After any other error, the engine calls the handler again for all apps.
			if err := req.Client.Patch(ctx, app, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return nil
	}
}

func hash(data map[string]string) string {
	text, _ := json.Marshal(data) // Marshal sorts the keys, and cannot fail for a map of strings
	return fmt.Sprintf("%.16x", sha256.Sum256(text))
}

func start(ctx context.Context, req *kopf.Request[*v1.App]) error {
	log.FromContext(ctx).Info("Starting the app", "image", req.Object.Spec.Image)
	return nil
}

func restart(ctx context.Context, req *kopf.Request[*v1.App]) error {
	log.FromContext(ctx).Info("Restarting the app", "image", req.Object.Spec.Image)
	return nil
}
