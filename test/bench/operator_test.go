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

// operatorEnv is the environment variable with the role of an operator process, as JSON. With this variable, the test
// binary runs an operator instead of tests. The benchmark can measure the CPU time and the memory of a separate process.
// The process reads one command per line and answers each with its stats. It exits when its standard input is closed.
const operatorEnv = "KOPF_BENCH_OPERATOR"

const (
	doStart   = "start"   // start the manager
	doSync    = "sync"    // wait until the cache is synced
	doCollect = "collect" // collect garbage and return heap and stack sizes
	doStats   = "stats"   // return only the stats
	doTake    = "take"    // also return and clear the recorded latencies
	doStop    = "stop"    // stop the manager and wait until it returns
)

// stats is the response to a command.
type stats struct {
	CPU        time.Duration // user and system time of the whole process
	Reconciles int64         // completed reconciles

	Heap, Stack uint64 // bytes in use, after doCollect
	Goroutines  int

	Running   int64     // running daemons
	Latencies []float64 // after doTake: lateness of timers, or time until the cancellation of daemons, in milliseconds
	Last      time.Time // when the last latency was recorded
	Calls     uint64    // calls of timers according to the metric of the library, after doTake
	Late      uint64    // calls that were more than a second late, after doTake
}

// runOperator runs the operator for a role, which is given as JSON.
func runOperator(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	return withCPUProfile(r.Profile, func() error {
		m := newMeasurements()
		mgr, err := newManager(r, m)
		if err != nil {
			return err
		}
		return serveCommands(mgr, m, r.Profile)
	})
}

func newManager(r role, m *measurements) (manager.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	// Formatting log lines must cost as much as in production. Only their output is discarded.
	logger := zap.New(zap.WriteTo(io.Discard))
	ctrl.SetLogger(logger)
	cacheOptions := cache.Options{DefaultNamespaces: map[string]cache.Config{r.Namespace: {}}}
	if r.Background == daemon {
		cacheOptions.DefaultTransform = m.recordDeletion
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"}, Cache: cacheOptions,
	})
	if err != nil {
		return nil, err
	}
	// doSync waits only for informers that exist before the start.
	if _, err := mgr.GetCache().GetInformer(context.Background(), kinds[r.Kind].empty()); err != nil {
		return nil, err
	}
	return mgr, addOperator(mgr, r, m, func(next reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			defer m.reconciles.Add(1)
			return next.Reconcile(ctx, req)
		})
	})
}

// serveCommands executes the commands from the standard input until it is closed. Then it stops the manager.
func serveCommands(mgr manager.Manager, m *measurements, profile string) error {
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
		case doTake:
			if err := m.take(&result); err != nil {
				return err
			}
		case doStop:
			m.recordStop()
			cancel()
			if err := running.Wait(); err != nil {
				return err
			}
		case doStats:
		default:
			return fmt.Errorf("unknown command %q", commands.Text())
		}
		result.CPU, result.Reconciles, result.Running, result.Goroutines = cpu(), m.reconciles.Load(), m.running.Load(), runtime.NumGoroutine()
		if err := answers.Encode(result); err != nil {
			return err
		}
	}
	cancel()
	return running.Wait()
}

// cpu returns the user and system time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // getrusage cannot fail for RUSAGE_SELF
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// memory returns the bytes in use after a garbage collection.
func memory() (heap, stack uint64) {
	runtime.GC()
	runtime.GC() // the second collection frees the contents of sync.Pools
	var memStats runtime.MemStats
	runtime.ReadMemStats(&memStats)
	return memStats.HeapAlloc, memStats.StackInuse
}
