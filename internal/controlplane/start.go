package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/reaper"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
	// A port that was free when it was chosen may be taken when it is used.
	attempts = 3

	envStartTimeout = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
)

// Options are the choices for one control plane. The zero value is a plain one.
type Options struct {
	// CRDPaths are files and folders with the CRDs to install. All of them must exist.
	CRDPaths []string
	// CRDs are installed along with those of CRDPaths. They are not modified.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Audit has the server record all write requests with their bodies, for [ControlPlane.Audit].
	Audit bool
	// Args are flags for kube-apiserver, named without dashes, as in
	// {"feature-gates": {"WatchList=false"}}. The values replace envtest's defaults for the flag;
	// a flag with no values is left out.
	Args map[string][]string
	// Controllers starts kube-controller-manager too, with some of its controllers: the garbage
	// collector, those of deployments and replica sets, and the one that ends the deletion of
	// namespaces. Without the binary, Start returns [ErrNoControllers].
	Controllers bool
}

// A ControlPlane is a running kube-apiserver with its etcd.
type ControlPlane struct {
	// Config is the access of an administrator, with no limit of requests on the client's side.
	Config *rest.Config

	dir         string // everything of this control plane is in there
	plane       envtest.ControlPlane
	controllers *process // nil if there are none
	guard       *reaper.Reaper
	kubeconfig  []byte
	client      *http.Client
	audited     bool
	auditStart  int64

	stopping sync.Once
	stopErr  error
}

var errPortTaken = errors.New("a port was taken by another program: try again")

// Start starts a control plane and returns when it serves the CRDs. The caller must Stop it.
func Start(opts Options) (*ControlPlane, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	assets, err := Assets()
	if err != nil {
		return nil, err
	}
	if opts.Controllers {
		if err := hasControllers(assets); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		cp, err := start(assets, opts)
		if err == nil || attempt == attempts || !errors.Is(err, errPortTaken) {
			return cp, err
		}
	}
}

// StartContext is Start for those who may be interrupted: it does not wait any longer when the context is done. What was
// started by then goes with this process, if not earlier.
func StartContext(ctx context.Context, opts Options) (*ControlPlane, error) {
	type result struct {
		cp  *ControlPlane
		err error
	}
	started := make(chan result, 1)
	go func() {
		cp, err := Start(opts)
		started <- result{cp, err}
	}()
	select {
	case <-ctx.Done():
		go func() { _ = (<-started).cp.Stop() }()
		return nil, ctx.Err()
	case r := <-started:
		return r.cp, r.err
	}
}

func start(assets string, opts Options) (*ControlPlane, error) {
	dir, err := os.MkdirTemp("", "kopf-controlplane-")
	if err != nil {
		return nil, fmt.Errorf("control plane: no temporary folder (is TMPDIR right?): %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	watch, err := reaper.New(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: the guard did not start: %w", err), os.RemoveAll(dir))
	}
	cp := &ControlPlane{dir: dir, guard: watch, audited: opts.Audit}
	if err := cp.run(assets, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: %w", err), cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) run(assets string, opts Options) error {
	if err := cp.launch(assets, opts); err != nil {
		return err
	}
	user, err := cp.plane.AddUser(
		envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return err
	}
	cp.Config = user.Config()
	if cp.kubeconfig, err = user.KubeConfig(); err != nil {
		return err
	}
	if cp.client, err = rest.HTTPClientFor(cp.Config); err != nil {
		return err
	}
	// The server is healthy before it has made the namespace everybody relies on.
	var last error
	if err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			_, last = cp.get(ctx, "/api/v1/namespaces/default")
			return last == nil, nil
		}); err != nil {
		return fmt.Errorf("kube-apiserver is up, but has no default namespace: %w", last)
	}
	if err := cp.install(opts); err != nil {
		return err
	}
	if opts.Controllers {
		if err := cp.startControllers(assets); err != nil {
			return err
		}
	}
	if cp.audited {
		cp.auditStart, err = cp.auditSize()
	}
	return err
}

// launch starts the two servers. Each logs to a file, for the error message if it fails.
func (cp *ControlPlane) launch(assets string, opts Options) error {
	timeout, err := allowedToStart()
	if err != nil {
		return err
	}
	etcd := &envtest.Etcd{
		DataDir:      cp.path("etcd"),
		StartTimeout: timeout,
		StopTimeout:  stopTimeout,
	}
	server := &envtest.APIServer{
		CertDir:      cp.path("kube-apiserver"),
		StartTimeout: timeout,
		StopTimeout:  stopTimeout,
	}
	cp.plane = envtest.ControlPlane{Etcd: etcd, APIServer: server}

	for _, dir := range []string{etcd.DataDir, server.CertDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if etcd.Path, err = cp.guard.WrapCommand(filepath.Join(assets, "etcd")); err != nil {
		return err
	}
	if server.Path, err = cp.guard.WrapCommand(filepath.Join(assets, "kube-apiserver")); err != nil {
		return err
	}
	etcdLog, err := os.Create(cp.path("etcd.log"))
	if err != nil {
		return err
	}
	defer etcdLog.Close() // the server has its own handle
	etcd.Out, etcd.Err = etcdLog, etcdLog
	serverLog, err := os.Create(cp.path("kube-apiserver.log"))
	if err != nil {
		return err
	}
	defer serverLog.Close()
	server.Out, server.Err = serverLog, serverLog

	flags := server.Configure()
	for name, values := range opts.Args {
		flags.Set(name, values...)
	}
	if opts.Audit {
		if err := cp.configureAudit(flags); err != nil {
			return err
		}
	}
	if err := cp.plane.Start(); err != nil {
		return cp.explain(err, "make controlplane", "kube-apiserver", "etcd")
	}
	return nil
}

// allowedToStart is the time for one server.
func allowedToStart() (time.Duration, error) {
	value := os.Getenv(envStartTimeout)
	if value == "" {
		return startTimeout, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s is no duration like 90s: %w", envStartTimeout, err)
	}
	return timeout, nil
}

// explain adds the end of the log of the server that failed: the first of these that has logged anything.
func (cp *ControlPlane) explain(err error, build string, servers ...string) error {
	for _, server := range servers {
		log, readErr := os.ReadFile(cp.path(server + ".log"))
		if readErr != nil || len(log) == 0 {
			continue
		}
		if bytes.Contains(log, []byte("address already in use")) {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		lines = lines[max(0, len(lines)-15):]
		return fmt.Errorf("%w (if the machine is just slow, set %s=3m; "+
			"if the binary is broken, run `%s` again). The log of %s ends with:\n%s",
			err, envStartTimeout, build, server, strings.Join(lines, "\n"))
	}
	return fmt.Errorf("%w, and nothing was logged (may programs be run from %s? if not, set TMPDIR)",
		err, filepath.Dir(cp.dir))
}

func (cp *ControlPlane) install(opts Options) error {
	if len(opts.CRDPaths)+len(opts.CRDs) == 0 {
		return nil
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(opts.CRDs))
	for _, crd := range opts.CRDs {
		crds = append(crds, crd.DeepCopy())
	}
	_, err := envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{
		Paths:              opts.CRDPaths,
		CRDs:               crds,
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
	})
	if err != nil {
		return fmt.Errorf("the CRDs cannot be installed (look at Options.CRDPaths and CRDs): %w", err)
	}
	return nil
}

// Stop ends the servers at once, whatever they are doing and for whom, and removes all their
// data. Further calls return the same error at once.
func (cp *ControlPlane) Stop() error {
	if cp == nil {
		return nil
	}
	cp.stopping.Do(func() {
		if cp.client != nil {
			cp.client.CloseIdleConnections()
		}
		// Asked to end, kube-apiserver would wait for the watches of its clients. As nobody needs
		// the data any more, the guard does the work, just as if this process had died.
		cp.guard.Stop()
		err := cp.plane.Stop()
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
			err = nil // the guard was faster
		}
		if err = errors.Join(err, cp.controllers.stop(), os.RemoveAll(cp.dir)); err != nil {
			cp.stopErr = fmt.Errorf("control plane: not stopped in good order "+
				"(end with `kill` what `ps` shows of %s, and remove that folder): %w", cp.dir, err)
		}
	})
	return cp.stopErr
}

// WriteKubeconfig writes a kubeconfig with the access of [ControlPlane.Config], readable to
// nobody else. It replaces the file if there is one.
func (cp *ControlPlane) WriteKubeconfig(path string) error {
	fail := func(err error) error {
		return fmt.Errorf("control plane: kubeconfig not written (is %s a writable folder?): %w",
			filepath.Dir(path), err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-") // with mode 0600
	if err != nil {
		return fail(err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(cp.kubeconfig)
	if err = errors.Join(err, file.Close()); err != nil {
		return fail(err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fail(err)
	}
	return nil
}

// Log returns what a server has logged so far: etcd, kube-apiserver or kube-controller-manager. It ends with Stop.
func (cp *ControlPlane) Log(server string) (string, error) {
	log, err := os.ReadFile(cp.path(server + ".log"))
	if err != nil {
		return "", fmt.Errorf("control plane: no log of %q (was it started, and not stopped?): %w", server, err)
	}
	return string(log), nil
}

func (cp *ControlPlane) path(name string) string {
	return filepath.Join(cp.dir, name)
}

// get asks the server for a path.
func (cp *ControlPlane) get(ctx context.Context, path string) ([]byte, error) {
	address, err := url.JoinPath(cp.Config.Host, path)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := cp.client.Do(request)
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w (is the control plane stopped?)", err)
		}
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %.200s", path, response.Status, body)
	}
	return body, nil
}

func (opts Options) check() error {
	reserved := []string{"bind-address", "cert-dir", "client-ca-file", "etcd-servers", "secure-port"}
	if opts.Audit {
		reserved = append(reserved, auditFlags...)
	}
	for name := range opts.Args {
		if strings.HasPrefix(name, "-") {
			return fmt.Errorf("control plane: name the flag %q in Options.Args without its dashes", name)
		}
		if slices.Contains(reserved, name) {
			return fmt.Errorf("control plane: leave the flag %q out of Options.Args, it is set already", name)
		}
	}
	return nil
}
