// Package local starts API servers on this machine for the commands in hack.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A Server is a running API server.
type Server interface {
	Config() *rest.Config
	WriteKubeconfig(path string) error
	// Writes returns the write requests since the last call.
	Writes() ([]Write, error)
	Stop() error
}

// A Write is a completed write request.
type Write struct {
	UserAgent string
	Method    string // of HTTP
	Path      string // such as databases/orders/status
	Code      int
	Body      []byte
}

// Memory starts an API server in memory with these CRDs. Clients can create others. It needs no other process and starts at once, but it has no controllers, no admission and no access
// control, and Namespaces need not exist.
func Memory(crds []*apiextensionsv1.CustomResourceDefinition) (Server, error) {
	resources := slices.DeleteFunc(apiserver.FromScheme(clientgoscheme.Scheme), func(r apiserver.Resource) bool {
		return r.GroupVersion.Version != "v1" // each version would be a kind of its own
	})
	m := &memory{}
	server := apiserver.New(resources...)
	for _, name := range []string{"default", "kube-system"} {
		namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}, "status": map[string]any{"phase": "Active"}}
		if err := server.Add(namespace); err != nil {
			return nil, err
		}
	}
	var err error
	if m.endpoint, err = server.Listen("127.0.0.1:0", m.note); err != nil {
		return nil, err
	}
	if _, err := envtest.InstallCRDs(m.Config(), envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		return nil, errors.Join(err, m.Stop())
	}
	_, err = m.Writes() // those were not of a user
	return m, err
}

// ReadCRDs reads CRDs from files and directories.
func ReadCRDs(paths []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	found := envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}
	if err := envtest.ReadCRDFiles(&found); err != nil {
		return nil, fmt.Errorf("read the CRDs: %w", err)
	}
	return found.CRDs, nil
}

type memory struct {
	endpoint *apiserver.Endpoint

	mu     sync.Mutex
	writes []Write
}

func (m *memory) note(e apiserver.Exchange) {
	path := strings.Split(strings.Trim(e.Path, "/"), "/")
	prefix := 2 // api/<version>
	if path[0] == "apis" {
		prefix = 3 // apis/<group>/<version>
	}
	path = path[min(len(path), prefix):]
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	if e.Method == http.MethodGet || len(path) == 0 || slices.Contains([]string{"leases", "events", "selfsubjectrulesreviews", "selfsubjectaccessreviews"}, path[0]) {
		return
	}
	var created struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if e.Method == http.MethodPost && json.Unmarshal(e.Body, &created) == nil && created.Metadata.Name != "" {
		path = append(path, created.Metadata.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, Write{e.UserAgent, e.Method, strings.Join(path, "/"), e.Code, e.Body})
}

func (m *memory) Config() *rest.Config { return rest.CopyConfig(m.endpoint.Config) }
func (m *memory) Stop() error          { return m.endpoint.Close() }

func (m *memory) WriteKubeconfig(path string) error {
	text, err := m.endpoint.Kubeconfig()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func (m *memory) Writes() (writes []Write, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	writes, m.writes = m.writes, nil
	return writes, nil
}

// ControlPlane starts etcd and kube-apiserver, and the controllers if they were built. It records write requests only if audit is true.
func ControlPlane(ctx context.Context, options controlplane.Options) (server Server, hasControllers bool, err error) {
	options.Controllers = true
	cp, err := controlplane.StartContext(ctx, options)
	if hasControllers = err == nil; errors.Is(err, controlplane.ErrNoControllers) {
		options.Controllers = false
		cp, err = controlplane.StartContext(ctx, options)
	}
	if err != nil {
		return nil, false, err
	}
	return &process{cp, cp.AuditSinceStart()}, hasControllers, nil
}

type process struct {
	*controlplane.ControlPlane
	audit *controlplane.AuditTail
}

func (p *process) Config() *rest.Config { return p.ControlPlane.Config }

func (p *process) Writes() (writes []Write, err error) {
	requests, err := p.audit.Next()
	for _, one := range requests {
		path := strings.TrimRight(strings.Join([]string{one.Resource, one.Name, one.Subresource}, "/"), "/")
		writes = append(writes, Write{one.UserAgent, methods[one.Verb], path, one.Code, one.Body})
	}
	return writes, err
}

// methods maps the verbs of Kubernetes to the methods of HTTP.
var methods = map[string]string{"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete}

// Exports returns the shell commands for another terminal.
func Exports(kubeconfig string) []string {
	exports := controlplane.Exports(kubeconfig)
	if _, err := exec.LookPath("kubectl"); err != nil && len(exports) == 1 {
		exports = append(exports, "# kubectl is missing: install it, or let make controlplane build it")
	}
	return exports
}
