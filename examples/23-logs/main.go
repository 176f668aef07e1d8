// Command 23-logs is an operator that reports errors in the logs of pods.
package main

import (
	"context"
	"os"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/contrib/logs"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Users select pods by this label.
const watched = "logs.example.com/watched"

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	config := ctrl.GetConfigOrDie()
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: kopf.NewCache,
		Metrics:  server.Options{BindAddress: "0"},
		Cache:    cache.Options{ByObject: kopf.ByObject(pods(clientset))}, // the API server sends only pods with the label
	})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator(clientset)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator(clientset kubernetes.Interface) []kopf.Option {
	return []kopf.Option{pods(clientset), logs.Needs()} // Needs declares the permission to read logs
}

func pods(clientset kubernetes.Interface) *kopf.Resource[*corev1.Pod] {
	return kopf.For(&corev1.Pod{}).
		Daemon("errors", daemons.Daemon{}, logs.Lines(clientset, report,
			logs.Match(regexp.MustCompile(`(?i)\b(error|panic)\b`)),
			logs.Since(5*time.Minute),
			logs.Bookmark(10*time.Second),
		), kopf.Label(watched), kopf.Backoff(10*time.Second))
}

// report posts an Event for a line. If it returned an error, the engine would call it again for the same line after the backoff.
func report(ctx context.Context, req *kopf.Request[*corev1.Pod], line logs.Line) error {
	log.FromContext(ctx).Info("The container has logged an error", "container", line.Container, "text", line.Text)
	req.Eventf(corev1.EventTypeWarning, "ErrorLogged", "ReadLog", "Container %s: %s", line.Container, line.Text)
	return nil
}
