package e2e

import (
	"context"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A running operator is a manager with kopf operators for one namespace.
type running struct {
	manager.Manager
	log  *logRecorder
	stop func()
}

// A setup changes the REST configuration of an operator.
type setup func(*rest.Config)

// through adds a transport between the operator and the server.
func through(wrap func(http.RoundTripper) http.RoundTripper) setup {
	return func(c *rest.Config) { c.Wrap(wrap) }
}

// newManager creates a manager for one namespace.
func newManager(namespace string, logs *logRecorder, setups ...setup) manager.Manager {
	config := rest.CopyConfig(cp.Config)
	for _, s := range setups {
		s(config)
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme:   scheme,
		Logger:   logs.Logger(),
		Metrics:  server.Options{BindAddress: "0"},
		NewCache: kopf.NewCache,
		Cache:    cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}, NewInformer: watching.NewDrainedInformer},
	})
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

// start runs an operator until stop is called or the spec ends.
func start(namespace string, options []kopf.Option, setups ...setup) *running {
	GinkgoHelper()
	logs := &logRecorder{}
	mgr := newManager(namespace, logs, setups...)
	Expect(mgr.Add(kopf.New(mgr, options...))).To(Succeed())
	return launch(mgr, logs)
}

func launch(mgr manager.Manager, logs *logRecorder) *running {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(ctx)
	}()
	r := &running{Manager: mgr, log: logs}
	r.stop = sync.OnceFunc(func() {
		cancel()
		var err error
		Eventually(ended).Should(Receive(&err), "the manager does not stop")
		Expect(err).NotTo(HaveOccurred())
		if t, ok := mgr.GetHTTPClient().Transport.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
		mgr.GetHTTPClient().CloseIdleConnections()
	})
	DeferCleanup(r.stop)
	return r
}

// working waits until the operator has listed the existing objects.
func working(r *running) {
	GinkgoHelper()
	Eventually(func() []string { return r.log.find("Starting workers") }).ShouldNot(BeEmpty())
}

// options returns its arguments as a list.
func options(opts ...kopf.Option) []kopf.Option { return opts }
