package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
)

var _ = Describe("OrderHandlers", func() {
	var order *shopv1.Order

	place := func(ctx SpecContext, item string, quantity int32) {
		GinkgoHelper()
		order = &shopv1.Order{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "order-"},
			Spec:       shopv1.OrderSpec{Item: item, Quantity: quantity},
		}
		Expect(k8sClient.Create(ctx, order)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(k8sClient.Delete(ctx, order))).To(Succeed())
			Eventually(func() bool {
				return apierrors.IsNotFound(k8sClient.Get(ctx, client.ObjectKeyFromObject(order), order))
			}).Should(BeTrue(), "the order still exists")
		})
	}
	edit := func(ctx SpecContext, patch string) {
		GinkgoHelper()
		Expect(k8sClient.Patch(ctx, order, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	reserved := func(ctx SpecContext) (int32, error) {
		err := k8sClient.Get(ctx, client.ObjectKeyFromObject(order), order)
		return order.Status.Reserved, err
	}
	reason := func(ctx SpecContext) (string, error) {
		err := k8sClient.Get(ctx, client.ObjectKeyFromObject(order), order)
		if condition := meta.FindStatusCondition(order.Status.Conditions, "Reserved"); condition != nil {
			return condition.Reason, err
		}
		return "", err
	}

	It("reserve items, change the reservation, and release the items", func(ctx SpecContext) {
		place(ctx, "book", 3)
		Eventually(reserved).WithContext(ctx).Should(BeEquivalentTo(3))
		Expect(warehouse.Left("book")).To(BeEquivalentTo(7))

		edit(ctx, `{"spec":{"quantity":5}}`)
		Eventually(reserved).WithContext(ctx).Should(BeEquivalentTo(5))
		Expect(warehouse.Left("book")).To(BeEquivalentTo(5))

		Expect(k8sClient.Delete(ctx, order)).To(Succeed())
		Eventually(func() int32 { return warehouse.Left("book") }).Should(BeEquivalentTo(10))
	})

	It("retry until the stock suffices", func(ctx SpecContext) {
		place(ctx, "lamp", 2)
		Eventually(reserved).WithContext(ctx).Should(BeEquivalentTo(2))
		first := order
		place(ctx, "lamp", 1)
		Eventually(reason).WithContext(ctx).Should(Equal("Retrying"))

		Expect(k8sClient.Delete(ctx, first)).To(Succeed())
		Eventually(reserved).WithContext(ctx).Should(BeEquivalentTo(1))
		Eventually(reason).WithContext(ctx).Should(Equal("Succeeded"))
	})

	It("fail for an unknown item until the order is edited", func(ctx SpecContext) {
		place(ctx, "unicorn", 1)
		Eventually(reason).WithContext(ctx).Should(Equal("Failed"))
		edit(ctx, `{"spec":{"item":"pen"}}`)
		Eventually(reserved).WithContext(ctx).Should(BeEquivalentTo(1))
		Expect(warehouse.Left("pen")).To(BeEquivalentTo(4))
	})
})
