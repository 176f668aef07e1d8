// Command 15-timers is an operator with timers for each object: by an interval, at fixed times, after an idle time, and
// by a cron schedule.
//
// It is a separate module because it needs a parser of schedules, which the library does not.
package main

import (
	"flag"
	"os"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	spec := flag.String("backup", "*/2 * * * * *", "cron schedule of the backups: second, minute, hour, day, month, weekday")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(*spec); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

// parser accepts schedules with seconds, so that the example shows calls soon. For five fields, use cron.ParseStandard.
var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func run(spec string) error {
	nightly, err := parser.Parse(spec)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, databases(nightly)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func databases(nightly cron.Schedule) *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		// The supervisor calls ping half a second after the end of its last call.
		Timer("ping", daemons.Timer{Interval: 500 * time.Millisecond, Jitter: 0.1, MaxParallel: 4}, ping).
		// The supervisor calls bill each second, counted from the creation of the object.
		Timer("bill", daemons.Timer{Interval: time.Second, Sharp: true}, bill).
		// The supervisor calls compact once, each time the object was not changed for a second.
		Timer("compact", daemons.Timer{Idle: time.Second}, compact).
		// The supervisor calls backup at the times of the schedule.
		Timer("backup", daemons.Timer{Schedule: nightly}, backup).
		// The supervisor retries replicate after errors. After a permanent error, it waits for a change of the object.
		Timer("replicate", daemons.Timer{Interval: 500 * time.Millisecond}, replicate).
		OnUpdate("changed", changed)
}
