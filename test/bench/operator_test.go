package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// operatorEnv is the environment variable with the role of an operator process, as JSON. With this variable, the test
// binary runs an operator instead of tests. The benchmark can measure the CPU time and the memory of a separate process.
// The process reads one command per line and answers each with its stats. It exits when its standard input is closed.
const operatorEnv = "KOPF_BENCH_OPERATOR"

const (
	doStart   = "start"   // start the manager
	doSync    = "sync"    // wait until the cache is synced
	doCollect = "collect" // collect garbage and return the heap size
	doStats   = "stats"   // return only the stats
	doTake    = "take"    // also return and clear the lateness of timers
	doPreview = "preview" // run a preview, without starting the manager
)

// stats is the response to a command.
type stats struct {
	CPU        time.Duration // user and system time of the whole process
	Resident   uint64        // resident memory in bytes; zero if unknown
	Peak       uint64        // largest resident memory so far; zero if unknown
	Reconciles int64         // completed reconciles
	Writes     int64         // requests other than GET, successful or not

	Heap     uint64    // bytes in use, after doCollect
	Lateness []float64 // in milliseconds, after doTake
}

// operator is the content of an operator process.
type operator struct {
	role
	manager.Manager
	reconciles *prometheus.CounterVec
	writes     atomic.Int64
	lateness   *lateness
	library    *kopf.Operator // nil for the other sides
}

// runOperator runs the operator for a role, which is given as JSON.
func runOperator(text string) error {
	o := operator{lateness: newLateness()}
	if err := json.Unmarshal([]byte(text), &o.role); err != nil {
		return err
	}
	return withCPUProfile(o.Profile, func() error {
		if err := o.setup(); err != nil {
			return err
		}
		return o.serveCommands()
	})
}

func (o *operator) setup() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return writeCounter{next, &o.writes} })
	// Formatting log lines must cost as much as in production. Only their output is discarded.
	logger := zap.New(zap.WriteTo(io.Discard))
	ctrl.SetLogger(logger)
	var unsafe *bool
	if o.Side == minimum {
		unsafe = new(true)
	}
	o.Manager, err = manager.New(config, manager.Options{
		Scheme: scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"},
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{o.Namespace: {}}, DefaultUnsafeDisableDeepCopy: unsafe},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	// doSync waits only for informers that exist before the start. With lean caches, the manager's cache isn't used.
	if !o.Lean {
		if _, err := o.GetCache().GetInformer(context.Background(), o.empty()); err != nil {
			return err
		}
	}
	if o.reconciles, err = reconcileTotal(); err != nil {
		return err
	}
	switch o.Side {
	case plain:
		return addPlainReconciler(o)
	case minimum:
		return addMinimumReconciler(o)
	default:
		return addLibrary(o)
	}
}

// reconcileTotal returns controller-runtime's counter of reconciles. Counting them in a wrapper would cost the library a goroutine for each reconcile.
func reconcileTotal() (*prometheus.CounterVec, error) {
	same := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "controller_runtime_reconcile_total", Help: "Total number of reconciliations per controller",
	}, []string{"controller", "result"})
	var registered prometheus.AlreadyRegisteredError
	if err := metrics.Registry.Register(same); !errors.As(err, &registered) {
		return nil, fmt.Errorf("controller-runtime has changed its metric %s: %w", "controller_runtime_reconcile_total", err)
	}
	return registered.ExistingCollector.(*prometheus.CounterVec), nil
}

// countReconciles returns the number of reconciles that all controllers have completed.
func (o *operator) countReconciles() int64 {
	counters := make(chan prometheus.Metric)
	go func() { o.reconciles.Collect(counters); close(counters) }()
	total := 0.0
	for counter := range counters {
		var value dto.Metric
		if err := counter.Write(&value); err != nil {
			panic(err) // a counter can always be written
		}
		total += value.GetCounter().GetValue()
	}
	return int64(total)
}

// writeCounter counts requests other than GET.
type writeCounter struct {
	http.RoundTripper
	writes *atomic.Int64
}

func (c writeCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && !strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/") {
		c.writes.Add(1)
	}
	return c.RoundTripper.RoundTrip(request)
}

// serveCommands executes the commands from the standard input until it is closed. Then it stops the manager.
func (o *operator) serveCommands() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := errgroup.Group{}
	answers := json.NewEncoder(os.Stdout)
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		result := stats{}
		switch commands.Text() {
		case doStart:
			running.Go(func() error { return o.Start(ctx) })
		case doSync:
			o.GetCache().WaitForCacheSync(ctx)
			if o.Lean {
				o.awaitReady()
			}
		case doCollect:
			result.Heap = heap()
			if err := profileHeap(o.Profile); err != nil {
				return err
			}
		case doTake:
			result.Lateness = o.lateness.take()
		case doPreview:
			if err := o.preview(ctx); err != nil {
				return err
			}
		case doStats:
		default:
			return fmt.Errorf("unknown command %q", commands.Text())
		}
		result.CPU, result.Resident, result.Peak, result.Reconciles, result.Writes = cpu(), resident(), peak(), o.countReconciles(), o.writes.Load()
		if err := answers.Encode(result); err != nil {
			return err
		}
	}
	cancel()
	return running.Wait()
}

// awaitReady waits until the library has been ready for a moment, because it is also ready before it starts.
func (o *operator) awaitReady() {
	<-o.Elected()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for ready := 0; ready < 5; ready++ {
		if <-poll.C; o.library.Readyz(nil) != nil {
			ready = 0
		}
	}
}

// preview previews what the library would do. All objects must be handled already.
func (o *operator) preview(ctx context.Context) error {
	report, err := o.library.Preview(ctx)
	if err == nil && report.Changes() != 0 {
		err = fmt.Errorf("the preview reports %d changes, want none", report.Changes())
	}
	return err
}

// cpu returns the user and system time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // getrusage cannot fail for RUSAGE_SELF
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peak returns the largest resident memory of this process in bytes, or zero on systems without /proc. Getrusage would include the memory
// of the process that has started this one.
func peak() (bytes uint64) {
	text, _ := os.ReadFile("/proc/self/status")
	_, line, _ := strings.Cut(string(text), "VmHWM:")
	_, _ = fmt.Sscan(line, &bytes)
	return bytes << 10 // in KiB
}

// resident returns the resident memory of this process in bytes, or zero on systems without /proc.
func resident() uint64 {
	var total, pages uint64
	text, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(text), &total, &pages)
	return pages * uint64(os.Getpagesize())
}

// heap returns the bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the second collection frees the contents of sync.Pools
	var memStats runtime.MemStats
	runtime.ReadMemStats(&memStats)
	return memStats.HeapAlloc
}
