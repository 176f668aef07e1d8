package guide

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// run starts an operator, stops it at the end of the test, and returns a client.
func run(t *testing.T, cfg *rest.Config, options ...kopf.Option) client.Client {
	t.Helper()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := kopf.SetupWithManager(mgr, options...); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	direct, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme()}) // the client of the manager reads from the cache
	if err != nil {
		t.Fatal(err)
	}
	return direct
}

// settled reports whether a handled object has no cycle in progress.
func settled(obj client.Object) bool {
	if progress.AnnotationBaseline("").Fetch(obj) == nil {
		return false
	}
	for key := range obj.GetAnnotations() {
		if strings.HasPrefix(key, "kopf.zalando.org/") && !strings.HasSuffix(key, "/last-handled-configuration") {
			return false // the annotation is the record of a handler
		}
	}
	return true
}

func TestCounting(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	var created atomic.Int64
	k8s := run(t, cfg, kopf.For(&corev1.ConfigMap{}).
		OnCreate("count", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			created.Add(1)
			if req.Attempt.Number == 0 {
				return kopf.Temporary(nil, 100*time.Millisecond)
			}
			req.Object.Data = map[string]string{"counted": "yes"}
			return nil
		}, kopf.Label("counted")))

	g, ctx := NewWithT(t), t.Context()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", GenerateName: "guide-", Labels: map[string]string{"counted": ""},
	}}
	g.Expect(k8s.Create(ctx, obj)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		g.Expect(obj.Data).To(HaveKeyWithValue("counted", "yes")) // users see the change of the handler
		g.Expect(settled(obj)).To(BeTrue())                       // no record remains
	}, 10*time.Second).Should(Succeed())
	g.Consistently(created.Load).Should(BeEquivalentTo(2))
}
