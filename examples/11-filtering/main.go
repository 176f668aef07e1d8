// Command 11-filtering is an operator whose handlers are for some of the objects only.
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

// Request is what the handlers are given.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	logging()
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

// logging takes the flags of zap: with -zap-log-level=4, the operator tells why a handler is not called.
func logging() {
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	_ = flag.Set("zap-encoder", "console")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
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
		// By labels and annotations: there, not there, with a value, or by a function of yours.
		OnCreate("gold", called, kopf.Label("tier", filter.Equal("gold"))).
		OnCreate("paid", called, kopf.Label("tier")).
		OnCreate("free", called, kopf.Label("tier", filter.Absent)).
		OnCreate("foreign", called, kopf.Annotation("contact", filter.Match(foreign))).
		OnCreate("precious", called, kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver"))), kopf.Annotation("contact")).
		// By a field: as it is, or as it was; thus Present: what was not there before is not redis, either ...
		OnCreate("sql", called, kopf.Field("spec.engine", filter.Present, filter.Not(filter.Equal("redis")))).
		// ... that it has changed, whatever else has ...
		OnUpdate("resized", called, kopf.Field("spec.sizeGiB")).
		// ... or from what to what.
		OnUpdate("grown", called, kopf.Field("spec.sizeGiB", filter.From(filter.Match(small)), filter.To(filter.Match(large)))).
		OnUpdate("promoted", called, kopf.Field("metadata.labels.tier", filter.From(filter.Absent), filter.To("gold")))

	// By anything, and for several handlers at once: a view of the kind, which is not to be given to the
	// operator, too.
	databases.When(public).
		OnCreate("expose", called).
		OnDelete("hide", called) // the others get no finalizer
	return databases
}

func called(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Called")
	return nil
}

// Matchers of values get them as in JSON: texts, numbers as int64 or float64, nil for those that are not there.

func foreign(contact any) bool {
	address, _ := contact.(string)
	return address != "" && !strings.HasSuffix(address, "@example.com")
}

const limit = 100

func small(size any) bool { gib, ok := size.(int64); return ok && gib < limit }
func large(size any) bool { gib, ok := size.(int64); return ok && gib >= limit }

// public looks at the whole request, so it may put several things together.
func public(req *Request) bool {
	return req.Object.GetLabels()["tier"] == "gold" && req.Object.GetAnnotations()["contact"] != ""
}
