// Command 09-testing is an operator with tests: see mailboxes_test.go.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/09-testing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func main() {
	logging()
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
	mail := &memory{quotas: map[string]int{}, busy: 1} // a real operator uses the client of a real mail server
	if err := kopf.SetupWithManager(mgr, mailboxes(mail)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// logging configures logs for people. The flags of zap change this.
func logging() {
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	_ = flag.Set("zap-encoder", "console")
	_ = flag.Set("zap-stacktrace-level", "panic")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))
}
