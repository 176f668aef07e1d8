package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
)

var _ = Describe("ParcelReconciler", func() {
	It("writes a label, and a delete handler blocks the deletion", func(ctx SpecContext) {
		parcel := &shopv1.Parcel{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gift"},
			Spec:       shopv1.ParcelSpec{Address: "Oslo"},
		}
		Expect(k8sClient.Create(ctx, parcel)).To(Succeed())
		label := func() (string, error) {
			err := k8sClient.Get(ctx, client.ObjectKeyFromObject(parcel), parcel)
			return parcel.Status.Label, err
		}
		Eventually(label).Should(Equal("to Oslo"))
		Eventually(func() ([]string, error) { _, err := label(); return parcel.Finalizers, err }).Should(HaveLen(1))

		Expect(k8sClient.Patch(ctx, parcel, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"address":"Bergen"}}`)))).To(Succeed())
		Eventually(label).Should(Equal("to Bergen"))

		Expect(k8sClient.Delete(ctx, parcel)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(parcel), parcel))
		}).Should(BeTrue())
	})
})
