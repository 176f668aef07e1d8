// Command 11-filtering is an operator whose handlers select some objects and some changes.
package main

import (
	"context"
	"flag"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	logging()
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

// logging configures zap by its flags: with -zap-log-level=4, the operator logs why it does not call a handler.
func logging() {
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	_ = flag.Set("zap-encoder", "console")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, databases()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	databases := kopf.For(kopf.Unstructured(database)).
		// These filters require a label or an annotation to be present, to be absent, to have a value, or to pass a function.
		OnCreate("gold", called, kopf.Label("tier", filter.Equal("gold"))).
		OnCreate("paid", called, kopf.Label("tier")).
		OnCreate("free", called, kopf.Label("tier", filter.Absent)).
		OnCreate("foreign", called, kopf.Annotation("contact", filter.Match(foreign))).
		OnCreate("precious", called, kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver"))), kopf.Annotation("contact")).
		// The current or the previous value of the field must pass. Without Present, a new redis database would
		// match, because its missing previous value passes Not.
		OnCreate("sql", called, kopf.Field("spec.engine", filter.Present, filter.Not(filter.Equal("redis")))).
		// The engine calls resized for a change of the field, with or without other changes.
		OnUpdate("resized", called, kopf.Field("spec.sizeGiB")).
		// The engine calls these handlers for a change from one value to another.
		OnUpdate("grown", called, kopf.Field("spec.sizeGiB", filter.From(filter.Match(small)), filter.To(filter.Match(large)))).
		OnUpdate("promoted", called, kopf.Field("metadata.labels.tier", filter.From(filter.Absent), filter.To("gold")))

	// When returns a view of the kind, whose function filters several handlers. Do not pass the view to the operator.
	databases.When(public).
		OnCreate("expose", called).
		OnDelete("hide", called) // other databases get no finalizer
	return databases
}

func called(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Called")
	return nil
}

// Functions of filter.Match receive JSON values: strings, numbers as int64 or float64, nil for a missing value.

func foreign(contact any) bool {
	address, _ := contact.(string)
	return address != "" && !strings.HasSuffix(address, "@example.com")
}

const limit = 100

func small(size any) bool { gib, ok := size.(int64); return ok && gib < limit }
func large(size any) bool { gib, ok := size.(int64); return ok && gib >= limit }

// public reads the whole request, so it can combine several conditions.
func public(req *Request) bool {
	return req.Object.GetLabels()["tier"] == "gold" && req.Object.GetAnnotations()["contact"] != ""
}
