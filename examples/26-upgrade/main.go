// Command 26-upgrade is an operator in two versions. The second one encrypts databases, and a rollout takes it to the existing ones.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	version := flag.Int("version", 2, "version of the operator, 1 or 2")
	preview := flag.Bool("preview", false, "print what this version would do with the existing databases, and exit")
	metrics := flag.String("metrics-bind-address", "localhost:8080", "address that serves the metrics and the status page")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(*version, *preview, *metrics); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(version int, preview bool, metrics string) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache: kopf.NewCache,
		Metrics:  server.Options{BindAddress: metrics},
		Client:   client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}}, // always read the current ciphers
	})
	if err != nil {
		return err
	}
	if preview {
		report, err := kopf.New(mgr, operator(version)...).Preview(ctrl.SetupSignalHandler())
		if err != nil {
			return err
		}
		return report.WriteText(os.Stdout)
	}
	if err := kopf.SetupWithManager(mgr, append(operator(version), kopf.WithStatusPage(kopf.AllowUnauthenticated()))...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// operator returns a version of the operator. Both have the same handler, with different functions.
func operator(version int) []kopf.Option {
	databases := kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}))
	if version == 1 {
		return []kopf.Option{databases.OnCreateOrUpdate("configure", configure)}
	}
	return []kopf.Option{
		databases.OnCreateOrUpdate("configure", encrypt, kopf.Revision(2)), // existing databases need the new function, too
		kopf.WithRollout(rollout.Options{
			Canaries:    0.5, // these are small numbers for a small example
			Soak:        3 * time.Second,
			MaxParallel: 1,
			OptOut:      "kopf-runtime.dev/rollout",
			Namespace:   "default", // in a pod, leave it out
		}),
		kopf.Needs(&corev1.ConfigMap{}, "get"),
	}
}

// configure is the function of version 1.
func configure(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Configuring")
	req.SetResult(map[string]any{"cipher": "none"})
	return nil
}

// encrypt is the function of version 2. It fails for engines without a cipher.
func encrypt(ctx context.Context, req *Request) error {
	var ciphers corev1.ConfigMap
	if err := req.Client.Get(ctx, client.ObjectKey{Namespace: req.Object.GetNamespace(), Name: "ciphers"}, &ciphers); err != nil {
		return err
	}
	engine, _, _ := unstructured.NestedString(req.Object.Object, "spec", "engine")
	cipher := ciphers.Data[engine]
	if cipher == "" {
		return kopf.Permanent(fmt.Errorf("there is no cipher for %s", engine))
	}
	log.FromContext(ctx).Info("Encrypting", "cipher", cipher)
	req.SetResult(map[string]any{"cipher": cipher})
	return nil
}
