package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	s, err := sizesFromFlags()
	if err != nil {
		t.Fatal(err)
	}
	against, err := opponents()
	if err != nil {
		t.Fatal(err)
	}
	selected := scenarios(s)
	if len(selected) == 0 {
		t.Fatal("-only matches no scenario")
	}
	// Small sizes share one control plane, because its start would take longer than a scenario.
	perControlPlane := len(selected)
	if *measure && !*quick {
		perControlPlane = 1
	}
	results, began, before := &report{opponents: against}, time.Now(), load()
	for group := range slices.Chunk(selected, perControlPlane) {
		name := group[0].name
		if len(group) > 1 {
			name = "all"
		}
		t.Run(name, func(t *testing.T) {
			b := newBench(t, s, results)
			for _, scenario := range group {
				b.runRounds(scenario)
			}
		})
	}
	if *measure {
		fmt.Printf("\n%s; %s before, %s after; %s\n\n%s\n", s, before, load(), time.Since(began).Round(time.Second), results)
	}
	for _, text := range results.unexpectedWrites() {
		t.Error(text)
	}
	if *plotFlag != "" {
		if err := os.WriteFile(*plotFlag, []byte(results.plot(s.plotted)), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// bench runs scenarios on one control plane.
type bench struct {
	sizes
	*report
	t          *testing.T
	cp         *controlplane.ControlPlane
	servers    []string // files with the CPU times of kube-apiserver and etcd
	k8s        client.Client
	kubeconfig string
	round      int
	objectSets map[objectSetKey]objectSet
}

func newBench(t *testing.T, s sizes, results *report) *bench {
	b := &bench{sizes: s, report: results, t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), objectSets: map[objectSetKey]objectSet{}}
	ctrl.SetLogger(logr.Discard())
	var err error
	b.cp, err = controlplane.Start(controlplane.Options{CRDs: crds()})
	b.must(err)
	t.Cleanup(func() {
		if err := b.cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.servers = findServers()
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

// runRounds runs the scenario for all sides in each round. The order of the sides changes: A B C, B C A, C A B.
func (b *bench) runRounds(sc scenario) {
	known := len(b.rows)
	for b.round = range b.rounds {
		sides := append(slices.Clone(b.opponents), library)
		first := b.round % len(sides)
		for _, s := range slices.Concat(sides[first:], sides[:first]) {
			began := time.Now()
			sc.run(b, s)
			b.t.Logf("round %d: %s, %s: %s", b.round+1, sc.name, s, time.Since(began).Round(100*time.Millisecond))
		}
	}
	for _, row := range b.rows[known:] {
		for _, opponent := range b.opponents {
			b.t.Logf("%s: %s", opponent, row.line(opponent))
		}
	}
}

// measure calls run, which changes or handles n objects and returns how long this took, or zero for a fixed duration. It
// adds a sample to a row of the report. Each object must cause the given number of writes.
func (b *bench) measure(row string, s side, p *process, n, writes int, run func() time.Duration) {
	b.t.Helper()
	before, servers := b.awaitIdle(p), b.serverCPU()
	took := run()
	after := b.awaitIdle(p)
	b.addSample(row, writes, s, sample{
		objects: n, took: took, cpu: after.CPU - before.CPU, servers: b.serverCPU() - servers,
		writes: after.Writes - before.Writes, reconciles: after.Reconciles - before.Reconciles,
	})
}

// namespace creates a namespace with a generated name and returns the name.
func (b *bench) namespace() string {
	b.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	b.must(b.k8s.Create(b.t.Context(), ns))
	return ns.Name
}

// request sends one request for an object.
type request func(context.Context, client.Object) error

// sendAll sends a request for each object, at most b.workers at a time. It returns the first error.
func (b *bench) sendAll(ctx context.Context, objects []v1.Object, send request) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.workers)
	for _, obj := range objects {
		group.Go(func() error { return send(ctx, obj.DeepCopyObject().(client.Object)) })
	}
	return group.Wait()
}

// sendAtRate sends a request for each object, at a fixed number per second. It returns the first error.
func (b *bench) sendAtRate(ctx context.Context, objects []v1.Object, perSecond int, send request) error {
	group, ctx := errgroup.WithContext(ctx)
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for _, obj := range objects {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return group.Wait()
		}
		group.Go(func() error { return send(ctx, obj.DeepCopyObject().(client.Object)) })
	}
	return group.Wait()
}

func (b *bench) create(ctx context.Context, obj client.Object) error { return b.k8s.Create(ctx, obj) }
func (b *bench) remove(ctx context.Context, obj client.Object) error { return b.k8s.Delete(ctx, obj) }

// resize returns a request that changes spec.size.
func (b *bench) resize(size int) request {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%d}}`, size))
	return func(ctx context.Context, obj client.Object) error { return b.k8s.Patch(ctx, obj, patch) }
}

// clear deletes all objects of the kind in the namespace.
func (b *bench) clear(k kind, namespace string) {
	b.t.Helper()
	b.must(b.k8s.DeleteAllOf(b.t.Context(), k.empty(), client.InNamespace(namespace)))
}

// sleepFor waits for the duration or until the test ends.
func (b *bench) sleepFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	<-ctx.Done()
}
