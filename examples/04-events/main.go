// Command 04-events is an operator that posts Kubernetes Events about its objects.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

// levels are the values of the flag -events.
var levels = map[string]events.Level{
	"transitions": events.Transitions, // the default of WithEvents
	"steps":       events.Steps,
	"off":         events.Off,
}

func main() {
	level := flag.String("events", "transitions", "automatic Events: transitions, steps or off")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(*level); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run(level string) error {
	chosen, known := levels[level]
	if !known {
		return fmt.Errorf("-events=%s is not a level: use transitions, steps or off", level)
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator(chosen)...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator(level events.Level) []kopf.Option {
	return []kopf.Option{databases(), kopf.WithEvents(events.Options{Level: level})}
}

func databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", provision).
		OnUpdate("grow", grow, kopf.Field("spec.sizeGiB"), kopf.Backoff(200*time.Millisecond)).
		Timer("look", daemons.Timer{Interval: 100 * time.Millisecond}, look, kopf.Label("watched"))
}

// provision posts its own Event, which kubectl describe shows.
func provision(_ context.Context, req *Request) error {
	req.Eventf(corev1.EventTypeNormal, "Provisioned", "Provision", "created a database of %d GiB", sizeOf(req.Object))
	return nil
}

// grow posts no Event itself. The operator posts its permanent failure, and its success after errors.
func grow(_ context.Context, req *Request) error {
	switch size := sizeOf(req.Object); {
	case size > 1000:
		// The message is too long for an Event, so the recorder shortens it.
		return kopf.Permanent(fmt.Errorf("%d GiB are too many%s: 1000 at most", size, strings.Repeat(" and more", 200)))
	case req.Attempt.Number < 3:
		return errors.New("the disks are busy")
	}
	return nil
}

// look posts the same Event ten times a second. The recorder combines them into one Event with a count.
func look(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Looking")
	req.Eventf(corev1.EventTypeNormal, "Looked", "Look", "nothing to see")
	return nil
}

func sizeOf(database *unstructured.Unstructured) int64 {
	size, _, _ := unstructured.NestedInt64(database.Object, "spec", "sizeGiB")
	return size
}
