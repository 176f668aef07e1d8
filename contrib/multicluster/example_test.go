package kopfmulticluster_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	kopfmulticluster "github.com/kopf-runtime/kopf-runtime/contrib/multicluster"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// The provider comes from multicluster-runtime, for example from its package providers/kubeconfig.
func ExampleSetup() {
	run := func(ctx context.Context, provider multicluster.Provider, options ctrl.Options) error {
		mgr, err := mcmanager.New(ctrl.GetConfigOrDie(), provider, options)
		if err != nil {
			return err
		}
		if err := kopfmulticluster.Setup(mgr, configMaps); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
	_ = run
}

// configMaps declares the handlers for one cluster.
func configMaps(c kopfmulticluster.Cluster) []kopf.Option {
	greet := func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
		req.Object.Data = map[string]string{"greeting": fmt.Sprint("Hello from ", c.Name)}
		return nil
	}
	return []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnCreate("greet", greet, kopf.Label("greet"))}
}
