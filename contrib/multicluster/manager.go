package kopfmulticluster

import (
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// A clusterManager is the manager that an operator receives. Its clients and caches belong to the cluster. Package kopf prepends ClusterName to the
// names of controllers.
type clusterManager struct {
	cluster.Cluster
	local manager.Manager
	name  string
}

var _ manager.Manager = (*clusterManager)(nil)

// ClusterName returns the name of the cluster.
func (m *clusterManager) ClusterName() string { return m.name }

// GetLogger implements [manager.Manager].
func (m *clusterManager) GetLogger() logr.Logger {
	return m.local.GetLogger().WithValues("cluster", m.name)
}

// Elected implements [manager.Manager].
func (m *clusterManager) Elected() <-chan struct{} { return m.local.Elected() }

// GetControllerOptions implements [manager.Manager].
func (m *clusterManager) GetControllerOptions() config.Controller {
	return m.local.GetControllerOptions()
}

// GetWebhookServer implements [manager.Manager].
func (m *clusterManager) GetWebhookServer() webhook.Server { return m.local.GetWebhookServer() }

// GetConverterRegistry implements [manager.Manager].
func (m *clusterManager) GetConverterRegistry() conversion.Registry {
	return m.local.GetConverterRegistry()
}

// Add implements [manager.Manager].
func (m *clusterManager) Add(r manager.Runnable) error {
	return m.refuse(fmt.Sprintf("a runnable (%T)", r))
}

// AddMetricsServerExtraHandler implements [manager.Manager].
func (m *clusterManager) AddMetricsServerExtraHandler(path string, _ http.Handler) error {
	return m.refuse("a handler for the path " + path)
}

// AddHealthzCheck implements [manager.Manager].
func (m *clusterManager) AddHealthzCheck(name string, _ healthz.Checker) error {
	return m.refuse("the liveness check " + name)
}

// AddReadyzCheck implements [manager.Manager].
func (m *clusterManager) AddReadyzCheck(name string, _ healthz.Checker) error {
	return m.refuse("the readiness check " + name)
}

// refuse returns the error for an addition to the manager, which would outlive the cluster.
func (m *clusterManager) refuse(what string) error {
	return fmt.Errorf("the operator of cluster %q cannot add %s, because it would outlive the cluster: add it to the manager itself", m.name, what)
}
