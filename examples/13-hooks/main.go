// Command 13-hooks is an operator with startup and cleanup handlers, checks, probes and traces.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Database is the Go type of databases, because the kind has no generated type.
type Database = *unstructured.Unstructured

func main() {
	metrics := flag.String("metrics-bind-address", "localhost:8080", "address that serves metrics and probes")
	health := flag.String("health-probe-bind-address", "localhost:8081", "address that serves the health checks")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(*metrics, *health); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(metrics, health string) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache:               kopf.NewCache,
		Metrics:                server.Options{BindAddress: metrics},
		HealthProbeBindAddress: health,
	})
	if err != nil {
		return err
	}
	var cloud session
	// SetupWithManager adds the checks /healthz and /readyz to the manager, and the probes to its metrics server.
	if err := kopf.SetupWithManager(mgr, operator(newTracer(), &cloud)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator(tracer Tracer, cloud *session) []kopf.Option {
	databases := kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"})).
		Use(traced[Database](tracer), counted). // Use wraps the handlers declared after it; the first middleware is the outermost
		OnCreate("provision", provision)
	return []kopf.Option{
		databases,
		kopf.OnStartup("login", cloud.login, kopf.Retries(5), kopf.Backoff(time.Second)), // the operator calls login before the first handler
		kopf.OnCleanup("logout", cloud.logout, kopf.Timeout(5*time.Second)),              // the operator calls logout after the last handler
		kopf.OnProbe("provisioned", func(context.Context) (any, error) { return provisioned.Load(), nil }),
		kopf.OnProbe("cloud", cloud.probe),
		kopf.WithStuckAfter(5 * time.Minute), // the limit of /healthz; longer than the longest handler call
		kopf.WithReconcilerWrapper(tracedCycle(tracer)),
	}
}

// provision fails once, to show a retry.
func provision(ctx context.Context, req *kopf.Request[Database]) error {
	if req.Attempt.Number == 0 {
		return kopf.Temporary(errors.New("no capacity"), 100*time.Millisecond)
	}
	log.FromContext(ctx).Info("Provisioning")
	return nil
}

var provisioned atomic.Int64

// counted is a middleware that counts successful calls.
func counted(next kopf.Handler[Database]) kopf.Handler[Database] {
	return func(ctx context.Context, req *kopf.Request[Database]) error {
		err := next(ctx, req)
		if err == nil {
			provisioned.Add(1)
		}
		return err // keep the error unchanged, because its type determines the retry
	}
}

// A session is a resource of the whole operator.
type session struct {
	attempts int
	open     atomic.Bool
}

// login fails once. The operator starts when login has succeeded, and ends if it fails permanently.
func (s *session) login(ctx context.Context) error {
	if s.attempts++; s.attempts == 1 {
		return kopf.Temporary(errors.New("the cloud is not reachable yet"), 100*time.Millisecond)
	}
	log.FromContext(ctx).Info("Logged in")
	s.open.Store(true)
	return nil
}

func (s *session) logout(ctx context.Context) error {
	log.FromContext(ctx).Info("Logged out")
	s.open.Store(false)
	return nil
}

// probe returns a value for /kopf/probes. If it returns an error, the whole response is an error.
func (s *session) probe(context.Context) (any, error) {
	if !s.open.Load() {
		return nil, errors.New("there is no session")
	}
	return "connected", nil
}
