package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
)

var _ = Describe("InvoiceReconciler", func() {
	It("calculates a total with tax", func(ctx SpecContext) {
		invoice := &shopv1.Invoice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "may"},
			Spec:       shopv1.InvoiceSpec{Cents: 1000},
		}
		Expect(k8sClient.Create(ctx, invoice)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, invoice)).To(Succeed()) })

		reconciler := &InvoiceReconciler{Client: k8sClient, Scheme: k8sClient.Scheme()}
		_, err := reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(invoice)})
		Expect(err).NotTo(HaveOccurred())
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(invoice), invoice)).To(Succeed())
		Expect(invoice.Status.Total).To(BeEquivalentTo(1190))
	})
})
