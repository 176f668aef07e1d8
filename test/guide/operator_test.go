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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// settled reports whether a handled object has no cycle in progress.
func settled(obj client.Object) bool {
	if progress.AnnotationBaseline("").Fetch(obj) == nil {
		return false
	}
	for key := range obj.GetAnnotations() {
		name, isOurs := strings.CutPrefix(key, "kopf.zalando.org/")
		if isOurs && name != "last-handled-configuration" && !strings.HasPrefix(name, "state-of-") {
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
	k8s := runWithRights(t, func(ctrl.Manager) []kopf.Option {
		return []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnCreate("count", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			created.Add(1)
			if req.Attempt.Number == 0 {
				return kopf.Temporary(nil, 100*time.Millisecond)
			}
			req.Object.Data = map[string]string{"counted": "yes"}
			return nil
		}, kopf.Label("counted"))}
	})

	g, ctx := NewWithT(t), t.Context()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", GenerateName: "guide-", Labels: map[string]string{"counted": ""},
	}}
	g.Expect(k8s.Create(ctx, obj)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		g.Expect(obj.Data).To(HaveKeyWithValue("counted", "yes")) // users see the change of the handler
		g.Expect(settled(obj)).To(BeTrue())                       // no record remains
	}, patience).Should(Succeed())
	g.Consistently(created.Load).Should(BeEquivalentTo(2))
}
