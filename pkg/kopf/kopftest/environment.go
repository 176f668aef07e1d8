package kopftest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/reaper"
)

// Environment starts a real API server, with its etcd, for a test, which takes some seconds, and stops it when the test ends, however that
// ends: by a panic, a timeout or Ctrl-C, too (on Linux and macOS).
// To share one among the tests of a package, see [Main]; with Ginkgo, call it in BeforeSuite with GinkgoTB().
//
// The binaries are looked for in the folder that KUBEBUILDER_ASSETS names; in bin/controlplane and bin/k8s/<version> of the
// folder of the test and of those above it, where this project and kubebuilder's put them; and where setup-envtest keeps
// its own. Nothing is downloaded: if there are none, the test fails, and says what to do. A start may take a minute, unless
// KUBEBUILDER_CONTROLPLANE_START_TIMEOUT says otherwise. A cluster that exists already is never used, whatever USE_EXISTING_CLUSTER says.
func Environment(t testing.TB, opts ...ClusterOption) *Cluster {
	t.Helper()
	c, stop, err := start(opts)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("kopftest: stopping the API server: %v", err)
		}
	})
	return c
}

// Main runs the tests of a package with a real API server for all of them, and returns the code to exit with:
//
//	var cluster *kopftest.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(kopftest.Main(m, &cluster, kopftest.CRDs("../config/crd"))) }
//
// Each test then takes a part of it by [Cluster.ForTest]. See [Environment] for the binaries. With "go test -short" nothing
// is started, and the cluster is nil: tests that need it have to skip themselves. Nor is it with "go test -list", or in the processes that "go test -fuzz"
// starts for a fuzz test.
func Main(m *testing.M, cluster **Cluster, opts ...ClusterOption) (code int) {
	flag.Parse() // m.Run would, too late
	if testing.Short() || isSet("test.list") || isSet("test.fuzzworker") {
		return m.Run()
	}
	c, stop, err := start(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kopftest:", err)
		return 1
	}
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "kopftest: stopping the API server:", err)
			code = max(code, 1)
		}
	}()
	*cluster = c
	return m.Run()
}

// isSet tells whether the test was started with a flag.
func isSet(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != f.DefValue
}

// ForTest is the cluster with a new namespace: operators that are run on it are confined to that, and to objects
// without namespaces, so that tests do not get into each other's way. The namespace is not removed: a server without
// kube-controller-manager cannot.
func (c *Cluster) ForTest(t testing.TB) *Cluster {
	t.Helper()
	ns := &unstructured.Unstructured{} // the scheme need not know it
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	ns.SetGenerateName("test-")
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("kopftest: making a namespace: %v", err)
	}
	part := *c
	part.Namespace, part.webhookSlots = ns.GetName(), &webhookSlots{}
	return &part
}

// A server starts in some seconds, but not if a machine has much else to do.
const (
	startTimeout    = time.Minute
	envStartTimeout = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT" // envtest looks at it
)

func start(opts []ClusterOption) (c *Cluster, stop func() error, err error) {
	o := clusterOptions{}
	for _, opt := range opts {
		opt(&o)
	}
	assets, err := findAssets()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "kopftest-")
	if err != nil {
		return nil, nil, fmt.Errorf("no temporary folder (is TMPDIR right?): %w", err)
	}
	watch, err := reaper.New(dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the guard of the servers does not start: %w", err), os.RemoveAll(dir))
	}
	env := &envtest.Environment{
		Scheme: schemeOr(o.scheme), CRDDirectoryPaths: o.crds, ErrorIfCRDPathMissing: true,
		UseExistingCluster: new(false), // whatever USE_EXISTING_CLUSTER says: nothing of a test belongs into a cluster that somebody needs
	}
	if os.Getenv(envStartTimeout) == "" {
		env.ControlPlaneStartTimeout = startTimeout
	}
	stop = func() error {
		watch.Stop() // at once, as nobody needs the data; the servers would wait for their clients
		err := env.Stop()
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
			err = nil // the guard was faster
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := configureServers(&env.ControlPlane, watch, assets, dir); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	config, err := env.Start()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the API server does not start (if the machine is just slow, set %s=3m): %w", envStartTimeout, err), stop())
	}
	if err := env.WebhookInstallOptions.Cleanup(); err != nil { // certificates in a folder of their own, which nobody uses
		return nil, nil, errors.Join(err, stop())
	}
	c = &Cluster{Scheme: env.Scheme, Config: rest.CopyConfig(config), webhookSlots: &webhookSlots{}}
	c.Config.QPS = -1
	if c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme}); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	for _, obj := range o.objects {
		c.setDefaultNamespace(obj)
		if err := c.Client.Create(context.Background(), obj); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("creating %s: %w", c.name(obj), err), stop())
		}
	}
	return c, stop, nil
}

// guarded has the servers keep what they have in a folder, and end with this process, however that ends.
func configureServers(plane *envtest.ControlPlane, watch *reaper.Guard, assets, dir string) (err error) {
	plane.Etcd = &envtest.Etcd{DataDir: filepath.Join(dir, "etcd")}
	plane.APIServer = &envtest.APIServer{CertDir: filepath.Join(dir, "kube-apiserver")}
	for _, folder := range []string{plane.Etcd.DataDir, plane.APIServer.CertDir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	if plane.Etcd.Path, err = watch.WrapCommand(filepath.Join(assets, "etcd")); err != nil {
		return err
	}
	plane.APIServer.Path, err = watch.WrapCommand(filepath.Join(assets, "kube-apiserver"))
	return err
}

// findAssets names the folder with kube-apiserver and etcd.
func findAssets() (string, error) {
	const variable = "KUBEBUILDER_ASSETS"
	if dir := os.Getenv(variable); dir != "" {
		if dir, err := filepath.Abs(dir); err == nil && hasAssets(dir) {
			return dir, nil
		}
		return "", fmt.Errorf("%s is %q, where kube-apiserver and etcd are not: correct or unset it", variable, dir)
	}
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if found := findProjectAssets(filepath.Join(dir, "bin")); found != "" {
			return found, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if dir, err := envtest.SetupEnvtestDefaultBinaryAssetsDirectory(); err == nil {
		if found := findNewest(dir); found != "" {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no kube-apiserver with its etcd: in a kubebuilder project run `make setup-envtest`, otherwise "+
		"`setup-envtest use`, or set %s to a folder that has both (looked in bin/ of %s and of the folders above it)", variable, at)
}

// assetsIn looks where projects keep theirs.
func findProjectAssets(bin string) string {
	if dir := filepath.Join(bin, "controlplane"); hasAssets(dir) {
		return dir
	}
	return findNewest(filepath.Join(bin, "k8s"))
}

// newest is the last folder of a folder that has what is needed, by its name, which begins with the version.
func findNewest(parent string) string {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return ""
	}
	for _, entry := range slices.Backward(entries) {
		if dir := filepath.Join(parent, entry.Name()); hasAssets(dir) {
			return dir
		}
	}
	return ""
}

func hasAssets(dir string) bool {
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}
