package garbagecollection

import (
	"context"
	"sync"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// operatorAgent identifies the requests of the operator.
const operatorAgent = "operator-under-test"

// start runs an operator for one namespace until stop is called or the spec ends.
func start(namespace string, options ...kopf.Option) (stop func()) {
	GinkgoHelper()
	config := rest.CopyConfig(cp.Config)
	config.UserAgent = operatorAgent
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme,
		Logger: funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) },
			funcr.Options{Verbosity: 1, LogTimestamp: true}),
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(mgr.Add(kopf.New(mgr, options...))).To(Succeed())

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		var err error
		Eventually(ended).Should(Receive(&err), "the manager does not stop")
		Expect(err).NotTo(HaveOccurred())
		mgr.GetHTTPClient().CloseIdleConnections()
	})
	DeferCleanup(stop)
	return stop
}
