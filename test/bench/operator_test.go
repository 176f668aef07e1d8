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

// childEnv contains the role of an operator. An operator is a separate process, so that the benchmark can measure its
// CPU time and memory: this test binary with this variable. It reads one command per line, and answers each with its
// stats. It ends with its input.
const childEnv = "KOPF_BENCH_OPERATOR"

const (
	doStart   = "start"   // starts the manager
	doSync    = "sync"    // responds when the cache is complete
	doCollect = "collect" // collects garbage and returns the heap
	doStats   = "stats"
	doRecall  = "recall" // also returns the measurements since the last time
	doStop    = "stop"   // stops the manager, and responds when it has returned
)

// stats are the measurements that an operator returns.
type stats struct {
	CPU    time.Duration // user and system time of the whole process
	Passes int64         // completed reconciles

	Heap, Stack uint64 // bytes in use, after doCollect
	Goroutines  int

	Running int64     // daemons whose context is not cancelled
	Noted   []float64 // after doRecall: lateness of timers, or time until the cancellation of daemons, in milliseconds
	Last    time.Time // time of the last measurement
	Calls   uint64    // calls of timers by the metric of the library; after doRecall
	Late    uint64    // calls that were late by more than a second
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
	// Logging costs as much as in production, except for the terminal.
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
	// The informer is requested before the start, so that doSync waits for it.
	if _, err := mgr.GetCache().GetInformer(context.Background(), kinds[r.Kind].empty()); err != nil {
		return nil, err
	}
	return mgr, addOperator(mgr, r, n, func(next reconcile.Reconciler) reconcile.Reconciler {
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
		result := stats{}
		switch commands.Text() {
		case doStart:
			running.Go(func() error { return mgr.Start(ctx) })
		case doSync:
			mgr.GetCache().WaitForCacheSync(ctx)
		case doCollect:
			result.Heap, result.Stack = memory()
			if err := profileHeap(profile); err != nil {
				return err
			}
		case doRecall:
			if err := n.recall(&result); err != nil {
				return err
			}
		case doStop:
			n.stops()
			cancel()
			if err := running.Wait(); err != nil {
				return err
			}
		case doStats:
		default:
			return fmt.Errorf("%q is no command", commands.Text())
		}
		result.CPU, result.Passes, result.Running, result.Goroutines = cpu(), n.passes.Load(), n.running.Load(), runtime.NumGoroutine()
		if err := answers.Encode(result); err != nil {
			return err
		}
	}
	cancel()
	return running.Wait()
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // impossible for this process
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func memory() (heap, stack uint64) {
	runtime.GC()
	runtime.GC() // the second collection frees pools
	var in runtime.MemStats
	runtime.ReadMemStats(&in)
	return in.HeapAlloc, in.StackInuse
}
