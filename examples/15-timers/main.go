// Command 15-timers is an operator with functions that are called for each object again and again: after pauses, at
// points in time, when it is left alone, and by a schedule as cron has it.
//
// It is a module of its own, for the parser of schedules: the library does not need one.
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

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is what the functions are given.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	spec := flag.String("backup", "*/2 * * * * *", "when backups are made: second, minute, hour, day, month, weekday")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(*spec); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

// parser knows schedules with seconds, so that there is something to be seen. For those of five fields, use
// cron.ParseStandard.
var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func run(spec string) error {
	nightly, err := parser.Parse(spec)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	databases := kopf.For(kopf.Unstructured(database)).
		// So long after the end of the last call.
		Timer("ping", 500*time.Millisecond, ping, kopf.Jitter(0.1), kopf.MaxParallel(4)).
		// At points that are so far apart, counted from the creation of the object.
		Timer("bill", time.Second, bill, kopf.Sharp()).
		// Once, each time that the object has not been changed for so long.
		Timer("compact", 0, compact, kopf.Idle(time.Second)).
		// When the schedule says so.
		Timer("backup", 0, backup, kopf.Schedule(nightly)).
		// Errors are retried; after a permanent one it waits until somebody has changed the object.
		Timer("replicate", 500*time.Millisecond, replicate).
		OnUpdate("changed", changed)
	if err := kopf.SetupWithManager(mgr, databases); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
