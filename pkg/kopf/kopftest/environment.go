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

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// Environment starts a real API server with etcd for a test, and stops them when the test ends. The start takes a few seconds. On Linux and
// macOS, the servers are stopped even after a panic, a timeout or Ctrl-C. To share a server among the tests of a package, use [Main]. With
// Ginkgo, call Environment in BeforeSuite with GinkgoTB().
//
// Environment looks for the binaries in this order:
//
//   - the directory in the environment variable KUBEBUILDER_ASSETS, which must contain them if it is set;
//   - bin/controlplane and bin/k8s/<version>, in the directory of the test and in its parent directories;
//   - the directory of setup-envtest.
//
// Environment doesn't download the binaries, so it fails the test if they are missing. The start timeout is one minute, unless the
// environment variable KUBEBUILDER_CONTROLPLANE_START_TIMEOUT sets a different one. USE_EXISTING_CLUSTER is ignored.
func Environment(t testing.TB, opts ...ClusterOption) *Cluster {
	t.Helper()
	c, stop, err := start(opts)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("kopftest: stop the API server: %v", err)
		}
	})
	return c
}

// Main runs the tests of a package with one API server for all of them, and returns the exit code:
//
//	var cluster *kopftest.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(kopftest.Main(m, &cluster, kopftest.CRDs("../config/crd"))) }
//
// Each test should call [Cluster.ForTest] for its own namespace. [Environment] describes where Main looks for the binaries. With "go test
// -short" and "go test -list", and in the worker processes of "go test -fuzz", no server starts and the cluster is nil, so tests that need
// it must skip themselves.
func Main(m *testing.M, cluster **Cluster, opts ...ClusterOption) (code int) {
	flag.Parse() // m.Run parses flags too late for testing.Short
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
			fmt.Fprintln(os.Stderr, "kopftest: stop the API server:", err)
			code = max(code, 1)
		}
	}()
	*cluster = c
	return m.Run()
}

// isSet reports whether a flag of the test differs from its default.
func isSet(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != f.DefValue
}

// ForTest returns a copy of the cluster with a new namespace, to isolate tests from each other. Its operators handle the objects in this
// namespace and cluster-scoped objects. The namespace isn't deleted after the test, because only a kube-controller-manager could finish its
// deletion.
func (c *Cluster) ForTest(t testing.TB) *Cluster {
	t.Helper()
	ns := &unstructured.Unstructured{} // the scheme may lack the type
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	ns.SetGenerateName("test-")
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("kopftest: create a namespace: %v", err)
	}
	part := *c
	part.Namespace, part.webhookSlots = ns.GetName(), &webhookSlots{}
	return &part
}

// The default start timeout is longer than envtest's, for busy machines.
const (
	startTimeout    = time.Minute
	envStartTimeout = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT" // envtest reads this variable
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
		return nil, nil, fmt.Errorf("create a temporary directory (check TMPDIR): %w", err)
	}
	watch, err := controlplane.NewReaper(dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the process that stops the servers: %w", err), os.RemoveAll(dir))
	}
	env := &envtest.Environment{
		Scheme: schemeOr(o.scheme), CRDDirectoryPaths: o.crds, ErrorIfCRDPathMissing: true,
		UseExistingCluster: new(false), // tests must not change an existing cluster
	}
	if os.Getenv(envStartTimeout) == "" {
		env.ControlPlaneStartTimeout = startTimeout
	}
	stop = func() error {
		watch.Stop() // kills the servers, because a graceful stop would wait for clients
		err := env.Stop()
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
			err = nil // the reaper has already stopped the server
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := configureServers(&env.ControlPlane, watch, assets, dir); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	config, err := env.Start()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the API server (on a slow machine, set %s=3m): %w", envStartTimeout, err), stop())
	}
	if err := env.WebhookInstallOptions.Cleanup(); err != nil { // removes the unused certificate directory
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
			return nil, nil, errors.Join(fmt.Errorf("create %s: %w", c.name(obj), err), stop())
		}
	}
	return c, stop, nil
}

// configureServers sets the servers' binaries and data directories. The reaper stops the servers when this process exits.
func configureServers(plane *envtest.ControlPlane, watch *controlplane.Reaper, assets, dir string) (err error) {
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

// findAssets returns the directory with kube-apiserver and etcd.
func findAssets() (string, error) {
	const variable = "KUBEBUILDER_ASSETS"
	if dir := os.Getenv(variable); dir != "" {
		if dir, err := filepath.Abs(dir); err == nil && hasAssets(dir) {
			return dir, nil
		}
		return "", fmt.Errorf("%s is %q, which does not contain kube-apiserver and etcd: correct or unset it", variable, dir)
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
	return "", fmt.Errorf("kube-apiserver and etcd not found: run `make setup-envtest` in a kubebuilder project, otherwise "+
		"`setup-envtest use`, or set %s to a directory with both (searched bin/ of %s and of its parent directories)", variable, at)
}

// findProjectAssets returns the directory with the binaries below a project's bin directory, or an empty string.
func findProjectAssets(bin string) string {
	if dir := filepath.Join(bin, "controlplane"); hasAssets(dir) {
		return dir
	}
	return findNewest(filepath.Join(bin, "k8s"))
}

// findNewest returns the alphabetically last subdirectory with the binaries. The names start with the version.
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
