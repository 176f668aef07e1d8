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
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
	// attempts limits how often Start tries again after a different program has taken a port before a server could use it.
	attempts = 3

	envStartTimeout = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
)

// Options configure a control plane. By default, it has no CRDs, no audit log and no controllers.
type Options struct {
	// CRDPaths are files and directories with CRDs to install. If one of them doesn't exist, Start returns an error.
	CRDPaths []string
	// CRDs are installed in addition to CRDPaths. Start does not modify them.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Audit records all write requests with their bodies, for [ControlPlane.AuditSinceStart].
	Audit bool
	// Args are kube-apiserver flags without dashes, such as {"feature-gates": {"WatchList=false"}}. They replace envtest's defaults. A flag
	// without values is removed.
	Args map[string][]string
	// Controllers also starts kube-controller-manager, with the garbage collector and the controllers of Deployments, ReplicaSets and
	// namespaces. If the binary is missing, Start returns [ErrNoControllers].
	Controllers bool
}

// A ControlPlane is a running kube-apiserver with etcd.
type ControlPlane struct {
	// Config connects as an administrator, without a client-side rate limit.
	Config *rest.Config

	dir         string // all files of the control plane
	plane       envtest.ControlPlane
	controllers *process // kube-controller-manager; nil if it wasn't started
	guard       *Reaper
	kubeconfig  []byte
	client      *http.Client
	audited     bool
	auditStart  int64

	stopping sync.Once
	stopErr  error
}

var errPortTaken = errors.New("another program uses the port: try again")

// Start starts a control plane and returns once the CRDs are served. The caller must call Stop.
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

// StartContext is like Start, but returns early if the context is cancelled. The servers then stop as soon as Start has finished, or when
// this process exits.
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
		return nil, fmt.Errorf("control plane: create a temporary directory (check TMPDIR): %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	guard, err := NewReaper(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: start the process that stops the servers: %w", err), os.RemoveAll(dir))
	}
	cp := &ControlPlane{dir: dir, guard: guard, audited: opts.Audit}
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
	// The server is healthy even before the default namespace exists.
	var last error
	if err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			_, last = cp.get(ctx, "/api/v1/namespaces/default")
			return last == nil, nil
		}); err != nil {
		return fmt.Errorf("kube-apiserver runs, but has no default namespace: %w", last)
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

// launch starts etcd and kube-apiserver. Their logs go to files, from which error messages quote.
func (cp *ControlPlane) launch(assets string, opts Options) error {
	timeout, err := serverStartTimeout()
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
	defer etcdLog.Close() // etcd has its own file descriptor
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

// serverStartTimeout returns how long a server may take to start.
func serverStartTimeout() (time.Duration, error) {
	value := os.Getenv(envStartTimeout)
	if value == "" {
		return startTimeout, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s must be a duration such as 90s: %w", envStartTimeout, err)
	}
	return timeout, nil
}

// explain adds the end of a server log to an error. It uses the first log that isn't empty.
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
		return fmt.Errorf("%w (on a slow machine, set %s=3m; "+
			"if the binary is broken, run `%s` again). The log of %s ends with:\n%s",
			err, envStartTimeout, build, server, strings.Join(lines, "\n"))
	}
	return fmt.Errorf("%w; the servers logged nothing (if %s does not allow executables, set TMPDIR)",
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
		return fmt.Errorf("install the CRDs (check Options.CRDPaths and CRDs): %w", err)
	}
	return nil
}

// Stop kills the servers and removes their data. Further calls return the same error immediately.
func (cp *ControlPlane) Stop() error {
	if cp == nil {
		return nil
	}
	cp.stopping.Do(func() {
		if cp.client != nil {
			cp.client.CloseIdleConnections()
		}
		// Before it stops, kube-apiserver would wait for its clients' watches. Its data is no longer needed, so the reaper kills it.
		cp.guard.Stop()
		err := cp.plane.Stop()
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
			err = nil // the reaper has already killed the server
		}
		if err = errors.Join(err, cp.controllers.stop(), os.RemoveAll(cp.dir)); err != nil {
			cp.stopErr = fmt.Errorf("control plane: stop "+
				"(kill the processes that `ps` shows for %s, and remove that directory): %w", cp.dir, err)
		}
	})
	return cp.stopErr
}

// WriteKubeconfig writes a kubeconfig with the permissions of [ControlPlane.Config]. It replaces an existing file. Only the user can read
// the new one.
func (cp *ControlPlane) WriteKubeconfig(path string) error {
	fail := func(err error) error {
		return fmt.Errorf("control plane: write the kubeconfig (is %s a writable directory?): %w",
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

// Log returns the log of etcd, kube-apiserver or kube-controller-manager. It returns an error if the server wasn't started, and after Stop.
func (cp *ControlPlane) Log(server string) (string, error) {
	log, err := os.ReadFile(cp.path(server + ".log"))
	if err != nil {
		return "", fmt.Errorf("control plane: no log of %q (it was not started, or was stopped): %w", server, err)
	}
	return string(log), nil
}

func (cp *ControlPlane) path(name string) string {
	return filepath.Join(cp.dir, name)
}

// get sends a GET request to kube-apiserver and returns the body. Any status other than 200 is an error.
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
			err = fmt.Errorf("%w (was the control plane stopped?)", err)
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
			return fmt.Errorf("control plane: remove the dashes from the flag %q in Options.Args", name)
		}
		if slices.Contains(reserved, name) {
			return fmt.Errorf("control plane: remove the flag %q from Options.Args: this package sets it", name)
		}
	}
	return nil
}
