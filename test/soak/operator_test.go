package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// operatorEnv is the environment variable with an operatorSetup as JSON. With it, the test binary runs an operator.
const operatorEnv = "KOPF_SOAK_OPERATOR"

// operatorSetup is the configuration of an operator process.
type operatorSetup struct {
	Kubeconfig string
	Namespace  string
	Ledger     string // URL of the ledger
	Process    int    // number of the process in the ledger
	Lease      bool   // whether leader election is enabled
}

// operatorState is the response of an operator to each line on its standard input.
type operatorState struct {
	Heap, Stack uint64 // bytes in use after a garbage collection
	Goroutines  int
	Daemons     int64 // number of running daemons
	Leading     bool
}

// Durations of leader election in the replaced group. A process that is suspended for longSuspension loses the lease.
const (
	leaseDuration = 4 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = time.Second

	tickInterval = 10 * time.Second
)

// errFlaky is the error of the first attempt for flaky objects.
var errFlaky = fmt.Errorf("the first attempt of a flaky object fails")

func runOperator(text string) error {
	var setup operatorSetup
	if err := json.Unmarshal([]byte(text), &setup); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", setup.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{setup.Namespace: {}}},
		LeaderElection: setup.Lease, LeaderElectionID: "soak", LeaderElectionNamespace: setup.Namespace,
		LeaseDuration: new(leaseDuration), RenewDeadline: new(renewDeadline), RetryPeriod: new(retryPeriod),
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	var running atomic.Int64
	if err := kopf.SetupWithManager(mgr, widgets(setup, &running)); err != nil {
		return err
	}
	go func() {
		answers := json.NewEncoder(os.Stdout)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			heap, stack := memory()
			_ = answers.Encode(operatorState{heap, stack, runtime.NumGoroutine(), running.Load(), elected(mgr)})
		}
		os.Exit(0) // the test has ended
	}()
	return mgr.Start(ctrl.SetupSignalHandler())
}

func elected(mgr manager.Manager) bool {
	select {
	case <-mgr.Elected():
		return true
	default:
		return false
	}
}

func memory() (heap, stack uint64) {
	runtime.GC()
	runtime.GC() // the second collection frees the contents of sync.Pools
	var in runtime.MemStats
	runtime.ReadMemStats(&in)
	return in.HeapAlloc, in.StackInuse
}

// widgets declares the operator: each handler records its call in the ledger and succeeds only if the ledger has stored it.
func widgets(setup operatorSetup, running *atomic.Int64) *kopf.Resource[*v1.Widget] {
	type request = kopf.Request[*v1.Widget]
	send := func(path, object, handler, input string) error {
		return post(setup.Ledger+path, url.Values{
			"object": {object}, "handler": {handler}, "input": {input}, "process": {strconv.Itoa(setup.Process)},
		})
	}
	handle := func(handler string) func(context.Context, *request) error {
		return func(_ context.Context, req *request) error {
			if strings.Contains(req.Object.Name, "flaky") && req.Attempt.Number == 0 && handler != "second" {
				return kopf.Temporary(errFlaky, 200*time.Millisecond)
			}
			if err := send("/call", nameOf(req.Object), handler, strconv.Itoa(req.Object.Spec.Size)); err != nil {
				return err
			}
			if handler != "second" {
				req.Object.Status.Phase = fmt.Sprintf("%s-%d", handler, req.Object.Spec.Size)
			}
			return nil
		}
	}
	return kopf.For(&v1.Widget{}).
		OnCreate("second", handle("second")).
		OnCreate("create", handle("create"), kopf.After("second")).
		OnUpdate("update", handle("update")).
		OnDelete("delete", handle("delete")).
		Timer("tick", daemons.Timer{Interval: tickInterval}, func(_ context.Context, req *request) error {
			return send("/tick", nameOf(req.Object), "tick", "")
		}).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *request) error {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return nil
		})
}

// nameOf returns a name for an object in the ledger. It contains the UID, because another object may have the same name.
func nameOf(obj *v1.Widget) string {
	return obj.Namespace + "/" + obj.Name + "/" + string(obj.UID)
}
