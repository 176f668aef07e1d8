package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// waitTimeout limits each wait for a condition.
const waitTimeout = 10 * time.Minute

var scheme = runtime.NewScheme()

func TestMain(m *testing.M) {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	if text := os.Getenv(operatorEnv); text != "" {
		if err := runOperator(text); err != nil {
			fmt.Fprintln(os.Stderr, "operator:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench runs all scenarios on one control plane.
type bench struct {
	sizes
	t          *testing.T
	cp         *controlplane.ControlPlane
	k8s        client.Client
	kubeconfig string
	report     report
	round      int
	totals     totals // costs of the lifecycle scenario in the present round
	objectSets map[objectSetKey]objectSet
	patched    atomic.Int64 // number of patches sent by the benchmark itself
}

func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	s, err := sizesFromFlags()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, s)
	began, machine, before := time.Now(), describe(b), load()
	for b.round = range b.rounds {
		b.scenarios()
	}
	if *measure {
		fmt.Printf("\n%s\n", b.report.text(fmt.Sprintf("%s\n%s before, %s after", machine, before, load()), time.Since(began)))
		return
	}
	// Durations of such a short round are meaningless. The number of writes does not depend on the machine.
	for _, missed := range b.report.missedCounts() {
		t.Error(missed)
	}
}

func newBench(t *testing.T, s sizes) *bench {
	b := &bench{sizes: s, t: t, report: newReport(), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), objectSets: map[objectSetKey]objectSet{}}
	ctrl.SetLogger(logr.Discard())
	var err error
	b.cp, err = controlplane.Start(controlplane.Options{CRDs: crds()})
	b.must(err)
	t.Cleanup(func() {
		if err := b.cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.must(b.cp.WriteKubeconfig(b.kubeconfig))
	b.k8s, err = client.New(b.cp.Config, client.Options{Scheme: scheme})
	b.must(err)
	return b
}

// must fails the test if err is not nil.
func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// scenarios runs one round. The order of the sides alternates between rounds.
func (b *bench) scenarios() {
	sides := []side{library, plain}
	if b.round%2 == 1 {
		slices.Reverse(sides)
	}
	forEachSide := func(name string, run func(side)) {
		for _, s := range sides {
			b.logDuration(fmt.Sprintf("%s, %s", name, s), func() { run(s) })
		}
	}
	if b.only.MatchString("lifecycle") {
		b.totals = totals{}
		for _, v := range variants() {
			forEachSide("lifecycle, "+v.String(), func(s side) { b.measureLifecycle(v, s) })
		}
		b.recordTotals(b.totals)
	}
	if b.only.MatchString("backlog") {
		forEachSide("backlog", b.measureBacklog)
	}
	if b.only.MatchString("latency") {
		b.logDuration("latency", func() { b.measureLatency(sides) })
	}
	if b.only.MatchString("standing") {
		forEachSide("standing", b.measureRestart)
	}
	if b.only.MatchString("timers") {
		b.logDuration("timers", b.measureTimers)
		b.logDuration("timers that write", b.measureWritingTimers)
	}
	if b.only.MatchString("daemons") {
		b.logDuration("daemons", b.measureDaemons)
	}
}

// logDuration calls run and logs how long it took.
func (b *bench) logDuration(what string, run func()) {
	began := time.Now()
	run()
	b.t.Logf("round %d: %s: %s", b.round+1, what, time.Since(began).Round(100*time.Millisecond))
}

// namespace creates a namespace with a generated name and returns the name.
func (b *bench) namespace() string {
	b.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	b.must(b.k8s.Create(b.t.Context(), ns))
	return ns.Name
}

// requestAll calls do with a copy of each object, in at most b.workers goroutines. It returns the first error.
func (b *bench) requestAll(ctx context.Context, objects []v1.Object, do func(context.Context, client.Object) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.workers)
	for _, obj := range objects {
		group.Go(func() error { return do(ctx, obj.DeepCopyObject().(client.Object)) })
	}
	return group.Wait()
}

func (b *bench) create(ctx context.Context, obj client.Object) error { return b.k8s.Create(ctx, obj) }
func (b *bench) remove(ctx context.Context, obj client.Object) error { return b.k8s.Delete(ctx, obj) }

// resize returns a function that patches spec.size.
func (b *bench) resize(size int) func(context.Context, client.Object) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%d}}`, size))
	return func(ctx context.Context, obj client.Object) error {
		b.patched.Add(1)
		return b.k8s.Patch(ctx, obj, patch)
	}
}

// clear deletes all objects of the kind in the namespace.
func (b *bench) clear(k kind, namespace string) {
	b.t.Helper()
	b.must(b.k8s.DeleteAllOf(b.t.Context(), k.empty(), client.InNamespace(namespace)))
}

// patches returns the number of patches that the operators have sent for objects of the kind, as counted by the
// server. The number includes status patches and rejected patches. Operators send only patches. The patches sent by
// the benchmark are not counted.
func (b *bench) patches(k kind) int {
	b.t.Helper()
	total := -int(b.patched.Load())
	for _, subresource := range []string{"", "status"} {
		counts, err := b.cp.Writes(b.t.Context(), k.plural, subresource)
		b.must(err)
		for key, n := range counts {
			if strings.HasPrefix(key, "PATCH ") {
				total += n
			}
		}
	}
	return total
}
