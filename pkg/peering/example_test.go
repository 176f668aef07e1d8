package peering_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// A hand-written reconciler is not called while peers have precedence.
func Example() {
	options := peering.Options{Priority: 100}
	options.BindFlags(flag.CommandLine)
	flag.Parse()

	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err == nil {
		err = setUp(mgr, options)
	}
	if err == nil {
		err = mgr.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func setUp(mgr manager.Manager, options peering.Options) error {
	p, err := peering.New(mgr, options)
	if err != nil {
		return err
	}
	gate := p.Gate(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		log.FromContext(ctx).Info("No peer has precedence")
		return reconcile.Result{}, nil
	}))
	return errors.Join(
		mgr.Add(p),
		mgr.AddReadyzCheck("peering", p.Readyz),
		mgr.AddMetricsServerExtraHandler("/peering", p), // reports the cause of a pause to users
		ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).WatchesRawSource(gate).Complete(gate),
	)
}

// This loop shows how code other than a reconciler can pause while a peer has precedence.
func ExamplePeering_Changed() {
	var p *peering.Peering // the result of peering.New
	loop := func(ctx context.Context) error {
		for {
			changed := p.Changed() // call Changed before Paused to receive each change
			work, stop := context.WithCancel(ctx)
			if paused, why := p.Paused(""); paused {
				log.FromContext(ctx).Info("Waiting", "why", why)
			} else {
				go doWork(work)
			}
			select {
			case <-ctx.Done():
				stop()
				return ctx.Err()
			case <-changed:
				stop()
			}
		}
	}
	_ = loop
}

func doWork(ctx context.Context) { <-ctx.Done() }

// A migration freezes all operators of a namespace while it runs.
func ExampleClient() {
	migrate := func(ctx context.Context) error {
		client, err := peering.NewClient(ctrl.GetConfigOrDie(), nil)
		if err != nil {
			return err
		}
		target := peering.Target{Namespaces: []string{"shop"}}
		record := peering.Record{Priority: 1000, Lifetime: time.Hour, Message: "migrating"}
		if _, err := client.Freeze(ctx, target, "migration", record); err != nil {
			return err
		}
		doWork(ctx)
		_, err = client.Resume(ctx, target, "migration")
		return err
	}
	_ = migrate
}

// An operator replaces a Python operator in the same Deployment.
func ExampleOptions_ReadEnvironment() {
	configure := func(fs *flag.FlagSet) error {
		var options peering.Options
		if err := options.ReadEnvironment(); err != nil { // KOPF_RUN_PEERING, KOPF_RUN_PRIORITY, ...
			return err
		}
		options.BindFlags(fs) // flags override variables
		return nil
	}
	_ = configure
}

// Records have kopf's JSON format.
func ExampleRecord() {
	seen := time.Date(2020, 12, 31, 23, 59, 59, 123456000, time.UTC)
	text, _ := json.Marshal(peering.Record{Priority: 100, Lifetime: time.Minute, LastSeen: seen})
	fmt.Println(string(text))

	var read peering.Record
	_ = json.Unmarshal([]byte(`{"priority": 7, "lastseen": "2020-12-31T23:59:59Z"}`), &read)
	fmt.Println(read.Priority, read.Lifetime, read.Expires())
	// Output:
	// {"priority":100,"lifetime":60,"lastseen":"2020-12-31T23:59:59.123456+00:00"}
	// 7 1m0s 2021-01-01 00:00:59 +0000 UTC
}

// Decide determines which peers have precedence and when to decide again.
func ExampleSelf_Decide() {
	now := time.Date(2020, 12, 31, 12, 0, 0, 0, time.UTC)
	var sightings peering.Observations
	peers, _ := sightings.Observe(map[string]any{
		"laptop": map[string]any{"priority": int64(666), "lastseen": "2020-12-31T12:00:00+00:00"},
		"other":  map[string]any{"priority": int64(-1)},
	}, now)
	verdict := peering.Self{Identity: "cluster"}.Decide(peers, now)
	fmt.Println(verdict.Paused, verdict.Higher[0].Identity, verdict.Recheck.Sub(now))
	// Output: true laptop 1m0s
}
