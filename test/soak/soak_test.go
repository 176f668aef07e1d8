package soak

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var (
	hours   = flag.Float64("hours", 0, "duration of the test in hours; 0: inject each fault once")
	seed    = flag.Uint64("seed", 1, "seed of the fault schedule")
	logsDir = flag.String("logs", "", "folder for the logs of the operators; empty: a temporary folder")

	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	if text := os.Getenv(operatorEnv); text != "" {
		if err := runOperator(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sample is a measurement of the steady process.
type sample struct {
	At time.Duration // time since the start of the test
	operatorState
}

// soak holds the state of one test run.
type soak struct {
	*testing.T
	duration, faultTime, calmTime time.Duration

	direct   client.Client
	cached   client.Reader
	steady   *group
	replaced *group
	stays    map[*group][]*v1.Widget
	started  time.Time

	mu      sync.Mutex
	samples []sample
}

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs a control plane")
	}
	s := &soak{T: t, duration: time.Duration(*hours * float64(time.Hour)), faultTime: 10 * time.Second, calmTime: 10 * time.Second, stays: map[*group][]*v1.Widget{}}
	permanent, workers, stepDelay := 40, 6, 200*time.Millisecond
	if s.duration == 0 {
		s.faultTime, s.calmTime, permanent, workers = 2*time.Second, 2*time.Second, 5, 3
	}
	s.setUp()
	s.create(permanent)

	stopped, running := make(chan struct{}), sync.WaitGroup{}
	for _, g := range []*group{s.steady, s.replaced} {
		d := &driver{group: g, direct: s.direct, cached: s.cached, stepDelay: stepDelay}
		for worker := range workers {
			running.Go(func() { d.runLifecycles(t.Context(), stopped, worker) })
		}
		running.Go(func() { d.runEdits(t.Context(), stopped, s.stays[g]) })
		running.Go(func() { s.faults(g, stopped) })
	}
	sampled := make(chan struct{})
	go func() { defer close(sampled); s.sample(stopped) }()
	if s.duration > 0 {
		pause(t, s.duration)
	} else {
		// The replaced group has the longest fault schedule.
		pause(t, time.Duration(len(processFaults))*(s.faultTime+s.calmTime)+4*leaseDuration)
	}
	close(stopped)
	running.Wait()
	<-sampled
	s.finish()
}

// setUp starts the control plane, the proxies and the operators.
func (s *soak) setUp() {
	s.Helper()
	log.SetLogger(zap.New(zap.WriteTo(s.logFile("driver.log"))))
	cp, err := controlplane.Start(controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd()}})
	s.must(err)
	s.Cleanup(func() { s.must(cp.Stop()) })
	s.direct, err = client.New(cp.Config, client.Options{Scheme: scheme})
	s.must(err)
	informers, err := cache.New(cp.Config, cache.Options{Scheme: scheme})
	s.must(err)
	s.cached = informers
	go func() { _ = informers.Start(s.Context()) }()
	_, err = informers.GetInformer(s.Context(), &v1.Widget{})
	s.must(err)

	start := func(name string, processes int) *group {
		g := &group{name: name, namespace: name, ledger: newLedger(), played: map[string]int{}}
		s.must(s.direct.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		g.proxy, err = newProxy(cp.Config)
		s.must(err)
		kubeconfig := filepath.Join(s.TempDir(), "kubeconfig")
		s.must(os.WriteFile(kubeconfig, g.proxy.kubeconfig(), 0o600))
		records := httptest.NewServer(recorder(g.ledger))
		s.Cleanup(records.Close)
		for n := 1; n <= processes; n++ {
			setup := operatorSetup{Kubeconfig: kubeconfig, Namespace: name, Ledger: records.URL, Process: n, Lease: processes > 1}
			g.processes = append(g.processes, startProcess(s.T, setup, g.ledger, s.logFile(fmt.Sprintf("%s-%d.log", name, n))))
		}
		return g
	}
	s.steady, s.replaced = start("steady", 1), start("replaced", 2)
	s.started = time.Now()
}

// logFile creates a log file in the folder for logs.
func (s *soak) logFile(name string) *os.File {
	s.Helper()
	dir := cmp.Or(*logsDir, filepath.Join(os.TempDir(), "kopf-soak"))
	s.must(os.MkdirAll(dir, 0o750))
	file, err := os.Create(filepath.Join(dir, name)) //nolint:gosec // the callers pass constant names
	s.must(err)
	s.Cleanup(func() { _ = file.Close() })
	return file
}

// must fails the test if err is not nil.
func (s *soak) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create creates n permanent objects in each group.
func (s *soak) create(n int) {
	s.Helper()
	for _, g := range []*group{s.steady, s.replaced} {
		d := &driver{group: g, direct: s.direct, cached: s.cached}
		for i := range n {
			obj, err := d.create(s.Context(), fmt.Sprintf("stays-%d", i))
			s.must(err)
			s.stays[g] = append(s.stays[g], obj)
		}
	}
}

// recorder returns the HTTP handler that stores the calls of operator handlers in the ledger.
func recorder(l *ledger) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.URL.Path == "/tick" {
			l.tick(query.Get("object"), time.Now())
			return
		}
		process, _ := strconv.Atoi(query.Get("process"))
		l.record(due{query.Get("object"), query.Get("handler"), query.Get("input")}, process, time.Now())
	})
}

// faults injects one fault after the other until stopped. Each fault is followed by a time without faults. The seed
// determines the order.
func (s *soak) faults(g *group, stopped <-chan struct{}) {
	random := rand.New(rand.NewPCG(*seed, uint64(len(g.processes)))) //nolint:gosec // a repeatable schedule, not used for security
	var injections []func()
	for _, f := range apiFaults {
		if s.duration == 0 && len(g.processes) > 1 {
			break // the short run injects API faults only into the steady group
		}
		injections = append(injections, func() {
			g.proxy.set(f)
			pause(s.T, s.faultTime)
			g.proxy.set(noFault)
			g.played[string(f)]++
		})
	}
	if len(g.processes) > 1 {
		for _, f := range processFaults {
			injections = append(injections, func() {
				f.play(g.selectProcess(random))
				g.played[f.name]++
			})
		}
	}
	for !isClosed(stopped) && s.Context().Err() == nil {
		for _, i := range random.Perm(len(injections)) {
			if isClosed(stopped) {
				return
			}
			injections[i]()
			pause(s.T, s.calmTime)
		}
	}
}

// sample measures the steady process every 30 seconds and logs a report every five minutes.
func (s *soak) sample(stopped <-chan struct{}) {
	const every, reports = 30 * time.Second, 10
	for n := 0; ; n++ {
		if state, ok := s.steady.processes[0].state(); ok {
			s.mu.Lock()
			s.samples = append(s.samples, sample{time.Since(s.started), state})
			s.mu.Unlock()
		}
		if n%reports == 0 {
			s.Log(s.report())
		}
		select {
		case <-stopped:
			return
		case <-time.After(every):
		}
	}
}

// report formats the last sample and the counts of both groups.
func (s *soak) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.samples[len(s.samples)-1]
	out := fmt.Sprintf("after %s: heap %.1f MiB, stacks %.1f MiB, %d goroutines, %d daemons\n", last.At.Round(time.Second),
		mib(last.Heap), mib(last.Stack), last.Goroutines, last.Daemons)
	for _, g := range []*group{s.steady, s.replaced} {
		total, repeats, ticked, lateness, violations := g.ledger.figures()
		starts := 0
		for _, p := range g.processes {
			starts += p.starts
		}
		out += fmt.Sprintf("  %s: %d calls, %d repeated after interruptions, %d ticks (late by at most %s), %d process starts, changed requests: %s; %d violations\n",
			g.name, total, repeats, ticked, lateness.Round(time.Millisecond), starts, g.proxy.figures(), len(violations))
		for _, violation := range violations[:min(10, len(violations))] {
			out += "    " + violation + "\n"
		}
	}
	return out
}

// mib converts bytes to MiB.
func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// finish ends the faults, waits for the daemons, runs the final checks and stops the operators.
func (s *soak) finish() {
	for _, g := range []*group{s.steady, s.replaced} {
		g.proxy.set(noFault)
		s.awaitDaemons(g)
		g.ledger.unexpected()
	}
	s.Log(s.report())
	for _, g := range []*group{s.steady, s.replaced} {
		total, _, _, lateness, violations := g.ledger.figures()
		for _, violation := range violations {
			s.Errorf("%s: %s", g.name, violation)
		}
		if total == 0 {
			s.Errorf("%s: number of handler calls = 0, want more", g.name)
		}
		if g == s.steady && lateness > tickInterval {
			s.Errorf("lateness of timers in the steady group = %s, want at most %s", lateness, tickInterval)
		}
		names := slices.Sorted(maps.Keys(g.played))
		for _, name := range names {
			s.Logf("%s: %s, %d times", g.name, name, g.played[name])
		}
		for _, p := range g.processes {
			p.stop()
		}
		g.proxy.Close()
	}
	if s.duration >= 30*time.Minute {
		s.checkFlat()
	}
}

// awaitDaemons waits until the number of running daemons equals the number of permanent objects. It reports a violation
// after a timeout.
func (s *soak) awaitDaemons(g *group) {
	ctx, cancel := context.WithTimeout(s.Context(), handledWithin)
	defer cancel()
	running := int64(0)
	for ctx.Err() == nil {
		running = 0
		for _, p := range g.processes {
			if state, ok := p.state(); ok {
				running += state.Daemons
			}
		}
		if running == int64(len(s.stays[g])) {
			return
		}
		pause(s.T, 200*time.Millisecond)
	}
	g.ledger.violatef("running daemons = %d, want %d", running, len(s.stays[g]))
}

// checkFlat checks that memory and goroutines do not grow from the first quarter of the samples to the last quarter. It
// omits the samples of the warm-up.
func (s *soak) checkFlat() {
	rest := slices.DeleteFunc(slices.Clone(s.samples), func(x sample) bool { return x.At < min(s.duration/6, 15*time.Minute) })
	quarter := len(rest) / 4
	median := func(of []sample, value func(sample) float64) float64 {
		values := make([]float64, len(of))
		for i, x := range of {
			values[i] = value(x)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, figure := range []struct {
		name  string
		value func(sample) float64
		slack float64
	}{
		{"heap in MiB", func(x sample) float64 { return mib(x.Heap) }, 1},
		{"goroutines", func(x sample) float64 { return float64(x.Goroutines) }, 5},
	} {
		first, last := median(rest[:quarter], figure.value), median(rest[len(rest)-quarter:], figure.value)
		s.Logf("%s: median %.1f in the first quarter after the warm-up, %.1f in the last", figure.name, first, last)
		if last > first*1.05+figure.slack {
			s.Errorf("%s grew from %.1f to %.1f", figure.name, first, last)
		}
	}
}

// crd returns the CRD of Widget, with the status subresource and a schema that keeps all fields.
func crd() *apiextensionsv1.CustomResourceDefinition {
	free := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + v1.GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v1.GroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Singular: "widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: v1.GroupVersion.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": free, "status": free},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}
