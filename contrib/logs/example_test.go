package logs_test

import (
	"context"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kopf-runtime/kopf-runtime/contrib/logs"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func setupLogs(mgr ctrl.Manager) error {
	clientset, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return err
	}
	report := func(ctx context.Context, req *kopf.Request[*corev1.Pod], line logs.Line) error {
		req.Eventf(corev1.EventTypeWarning, "OutOfMemory", "ReadLog", "Container %s: %s", line.Container, line.Text)
		return nil
	}
	pods := kopf.For(&corev1.Pod{}).
		Daemon("oom", daemons.Daemon{}, logs.Lines(clientset, report, logs.Match(regexp.MustCompile(`out of memory`))), kopf.Label("app"))
	return kopf.SetupWithManager(mgr, pods, logs.Needs())
}

func ExampleLines() {
	var mgr ctrl.Manager // of main
	_ = func() error { return setupLogs(mgr) }
}

func ExampleOption() {
	var clientset kubernetes.Interface // of main
	var onLine logs.Func
	_ = logs.Lines(clientset, onLine, logs.Containers("app"), logs.Since(5*time.Minute), logs.Bookmark(10*time.Second))
}
