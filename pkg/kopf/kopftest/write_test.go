package kopftest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Delete requests have the dry-run option in their bodies.
func TestWrite_DryRun(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	var tried atomic.Bool
	operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEvent("try", func(ctx context.Context, req *cmRequest) error {
		if tried.Swap(true) {
			return nil // a dry run must succeed
		}
		copied := &corev1.ConfigMap{}
		copied.Name, copied.Namespace = "copy", req.Object.Namespace
		g.Expect(req.Client.Create(ctx, copied, client.DryRunAll)).To(Succeed())
		g.Expect(req.Client.Delete(ctx, req.Object.DeepCopy(), client.DryRunAll)).To(Succeed())
		return req.Client.Delete(ctx, req.Object.DeepCopy())
	}, kopf.Label("try")))
	obj := configMap(nil)
	obj.Namespace, obj.Labels = "", map[string]string{"try": ""}
	cluster.Create(t, obj)
	loggedWrites := func() (texts []string) {
		for _, write := range operator.Writes() {
			texts = append(texts, write.String())
		}
		return texts
	}
	g.Eventually(loggedWrites).Should(HaveExactElements("create configmaps/copy, dry run", "delete configmaps/orders, dry run", "delete configmaps/orders"))
	g.Expect(operator.Writes()).To(HaveExactElements(
		HaveField("DryRun", true), HaveField("DryRun", true), HaveField("DryRun", false)))
}
