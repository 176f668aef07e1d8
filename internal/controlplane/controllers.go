package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	controllerManager = "kube-controller-manager"
	// ControllersUser is the user name under which the controllers appear in the audit log.
	ControllersUser = "system:" + controllerManager
)

// ErrNoControllers is returned if Options.Controllers is set, but kube-controller-manager is missing.
var ErrNoControllers = errors.New("kube-controller-manager not found")

// controllers lists the enabled controllers. Keep it short, because each controller adds watches and writes.
var controllers = []string{
	"deployment-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"replicaset-controller",
}

// A process is a running program that envtest can't start.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has exited
}

// hasControllers returns an error if kube-controller-manager is not in the directory.
func hasControllers(assets string) error {
	err := checkProgram(filepath.Join(assets, controllerManager))
	switch {
	case err == nil:
		return nil
	case os.Getenv(envAssets) != "":
		return fmt.Errorf("control plane: %w: add it to the directory in %s, "+
			"or unset this variable and run `make controller-manager` in the root of the repository: %w", ErrNoControllers, envAssets, err)
	}
	return fmt.Errorf("control plane: %w: run `make controller-manager` in the root of the repository: %w", ErrNoControllers, err)
}

// startControllers starts kube-controller-manager and waits until it is healthy. The CRDs must already be installed, because the garbage
// collector discovers new kinds only every half minute.
func (cp *ControlPlane) startControllers(assets string) error {
	timeout, err := serverStartTimeout()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	args, err := cp.controllersArgs(port)
	if err != nil {
		return err
	}
	if err := cp.spawn(filepath.Join(assets, controllerManager), args); err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-cp.controllers.ended:
				return false, fmt.Errorf("%s has ended: %s", controllerManager, cp.controllers.cmd.ProcessState)
			default:
			}
			last = cp.controllersHealth(ctx, port)
			return last == nil, nil
		})
	if err != nil {
		return cp.explain(errors.Join(err, last), "make controller-manager", controllerManager)
	}
	return nil
}

func (cp *ControlPlane) controllersArgs(port string) ([]string, error) {
	user, err := cp.plane.AddUser(envtest.User{Name: ControllersUser, Groups: []string{"system:masters"}}, &rest.Config{})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	file := cp.path(controllerManager + ".kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--kubeconfig=" + file,
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--cert-dir=" + cp.path(controllerManager),
		"--kube-api-qps=500", // tests must not wait for the client's rate limit
		"--kube-api-burst=1000",
		"--profiling=false",
	}, nil
}

// spawn starts a program as the controllers' process. The reaper stops it.
func (cp *ControlPlane) spawn(binary string, args []string) error {
	program, err := cp.guard.WrapCommand(binary)
	if err != nil {
		return err
	}
	log, err := os.Create(cp.path(filepath.Base(binary) + ".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own file descriptor
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	cp.controllers = &process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(cp.controllers.ended)
	}()
	return nil
}

// stop kills the process, unless the reaper has already killed it.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	return err
}

// controllersHealth checks the health endpoint of kube-controller-manager, which has a self-signed certificate.
func (cp *ControlPlane) controllersHealth(ctx context.Context, port string) error {
	certificate, err := os.ReadFile(filepath.Join(cp.path(controllerManager), controllerManager+".crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not healthy: %s", controllerManager, response.Status)
	}
	return nil
}

// freePort returns a free port. If a different program takes it before kube-controller-manager does, Start tries again.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("no free port on 127.0.0.1: %w", err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
