// Command 03-exceptions is an operator whose handlers fail in different ways.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/03-exceptions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*v1.Backup]

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
	if err := mgr.Add(kopf.New(mgr, backups())); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func backups() *kopf.Resource[*v1.Backup] {
	return kopf.For(&v1.Backup{}).
		// snapshot returns a temporary error. The engine retries the handler after the delay in the error.
		OnCreate("snapshot", snapshot).
		// check returns a permanent error. The engine calls it again only for a new cause, such as a change of the spec.
		OnCreateOrUpdate("check", check).
		// After any other error, the engine retries a handler with a backoff, within the limits in the options.
		OnCreate("copy", upload, kopf.Backoff(time.Second), kopf.Retries(3)).
		OnCreate("announce", announce, kopf.Backoff(2*time.Second), kopf.Timeout(5*time.Second)).
		// With these error modes, the engine does not retry the handler. bill fails permanently, and tidy succeeds.
		OnCreate("bill", bill, kopf.ErrorMode(progress.ErrorsPermanent)).
		OnCreate("tidy", tidy, kopf.ErrorMode(progress.ErrorsIgnored)).
		// index panics. The engine handles a panic like any other error, and the operator continues.
		OnCreate("index", index, kopf.Backoff(time.Second))
}

// logging configures logs for people: one line for each message, and no stack trace with each error. The flags of zap
// change this.
func logging() {
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	_ = flag.Set("zap-encoder", "console")
	_ = flag.Set("zap-stacktrace-level", "panic")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))
}

// snapshot waits for an external system. A temporary error is not a failure.
func snapshot(ctx context.Context, req *Request) error {
	if req.Attempt.Number < 2 {
		return kopf.Temporary(errors.New("the snapshot is not ready yet"), 2*time.Second)
	}
	req.Object.Status.Snapshot = req.Object.Spec.Volume + "-snapshot" // the engine writes the change
	log.FromContext(ctx).Info("The snapshot is ready", "runtime", req.Attempt.Runtime().Round(time.Second).String())
	return nil
}

// check finds an error that no further attempt can fix. The engine writes its change to the object although the handler fails.
func check(_ context.Context, req *Request) error {
	req.Object.Status.Problem = ""
	target, err := url.Parse(req.Object.Spec.Target)
	if err == nil && target.Scheme != "s3" {
		err = fmt.Errorf("the target is %s, only s3 is supported", target.Scheme)
	}
	if err != nil {
		req.Object.Status.Problem = err.Error()
		return kopf.Permanent(err)
	}
	return nil
}

// upload never succeeds: it fails permanently after three attempts.
func upload(context.Context, *Request) error { return errors.New("connection refused") }

// announce never succeeds: it fails permanently after its timeout.
func announce(context.Context, *Request) error { return errors.New("the mail server is busy") }

// bill fails once, and the engine does not retry it.
func bill(context.Context, *Request) error { return errors.New("no such customer") }

// tidy fails, and the engine ignores the error.
func tidy(context.Context, *Request) error { return errors.New("nothing to tidy up") }

// index panics in its first attempt, because the map is nil.
func index(ctx context.Context, req *Request) error {
	var entries map[string]string
	if req.Attempt.Number > 0 {
		entries = map[string]string{} // the second attempt succeeds
	}
	entries[req.Object.Name] = req.Object.Spec.Volume // panics if the map is nil
	log.FromContext(ctx).Info("The backup is in the index", "after", req.Attempt.Last)
	return nil
}
