package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An operator has a process of its own, so that its CPU time and memory are not the benchmark's: this
// test binary with this variable, which has the role. It takes commands, a line each, and answers each
// with its stats. It ends with its input.
const childEnv = "KOPF_BENCH_OPERATOR"

const (
	doStart   = "start"   // the manager
	doSync    = "sync"    // answered when the cache is filled
	doCollect = "collect" // garbage, and tell the heap
	doTell    = "tell"
	doRecall  = "recall" // tell also what was noted since the last time
	doStop    = "stop"   // the manager; answered when it has returned
)

// Stats are what an operator tells of itself.
type stats struct {
	CPU    time.Duration // user and system, of the whole process
	Passes int64         // calls of the reconciler that have returned

	Heap, Stack uint64 // bytes in use, after doCollect
	Goroutines  int

	Running int64     // daemons that were not told to stop
	Noted   []float64 // after doRecall: how late timers were, or how soon daemons were told, in milliseconds
	Last    time.Time // when the last of that was noted
	Calls   uint64    // of timers, by the metric of the library; after doRecall
	Late    uint64    // those of them that were late by more than a second
}

func child(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	return profiled(r.Profile, func() error {
		n := newNotes()
		mgr, err := newManager(r, n)
		if err != nil {
			return err
		}
		return obey(mgr, n, r.Profile)
	})
}

func newManager(r role, n *notes) (manager.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	// Logging costs what it costs in production, except for the terminal.
	logger := zap.New(zap.WriteTo(io.Discard))
	ctrl.SetLogger(logger)
	fill := cache.Options{DefaultNamespaces: map[string]cache.Config{r.Namespace: {}}}
	if r.Background == daemon {
		fill.DefaultTransform = n.watch
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"}, Cache: fill,
	})
	if err != nil {
		return nil, err
	}
	// Asked for before the start, so that doSync waits for it.
	if _, err := mgr.GetCache().GetInformer(context.Background(), kinds[r.Kind].empty()); err != nil {
		return nil, err
	}
	return mgr, enroll(mgr, r, n, func(next reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			defer n.passes.Add(1)
			return next.Reconcile(ctx, req)
		})
	})
}

func obey(mgr manager.Manager, n *notes, profile string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := errgroup.Group{}
	answers := json.NewEncoder(os.Stdout)
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		told := stats{}
		switch commands.Text() {
		case doStart:
			running.Go(func() error { return mgr.Start(ctx) })
		case doSync:
			mgr.GetCache().WaitForCacheSync(ctx)
		case doCollect:
			told.Heap, told.Stack = memory()
			if err := profileHeap(profile); err != nil {
				return err
			}
		case doRecall:
			if err := n.recall(&told); err != nil {
				return err
			}
		case doStop:
			n.stops()
			cancel()
			if err := running.Wait(); err != nil {
				return err
			}
		case doTell:
		default:
			return fmt.Errorf("%q is no command", commands.Text())
		}
		told.CPU, told.Passes, told.Running, told.Goroutines = cpu(), n.passes.Load(), n.running.Load(), runtime.NumGoroutine()
		if err := answers.Encode(told); err != nil {
			return err
		}
	}
	cancel()
	return running.Wait()
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it cannot fail for this process
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func memory() (heap, stack uint64) {
	runtime.GC()
	runtime.GC() // what the first one has put into pools goes with the second
	var in runtime.MemStats
	runtime.ReadMemStats(&in)
	return in.HeapAlloc, in.StackInuse
}
