package examples

import (
	. "github.com/onsi/gomega"
)

// It runs with the rights of its config/rbac, and with no others.
func kubebuilder(e *example) {
	e.start("-health-probe-bind-address=" + freeAddress(e))
	lamps, may, gift := e.sample("lamps"), e.sample("may"), e.sample("gift")
	for _, one := range []object{lamps, may, gift} {
		one.create()
	}
	e.Eventually(lamps.row).Should(Equal("lamps lamp 2 2"))
	e.Eventually(may.field("status", "total")).Should(Equal(int64(1190)))
	e.Eventually(gift.field("status", "label")).Should(Equal("to Oslo"))
	e.Eventually(gift.field("metadata", "finalizers")).Should(HaveLen(1))
	e.Expect(may.get("metadata", "finalizers")).To(BeNil())
	e.Expect(may.get("metadata", "annotations")).To(BeNil())

	e.does(`kubectl patch order lamps --type=merge -p '{"spec":{"quantity":3}}'`)
	e.logs(`not enough items in stock`)
	e.Expect(words(e.does("kubectl get orders,invoices,parcels"))).To(ContainElements("order.shop.example.com/lamps", "invoice.shop.example.com/may", "parcel.shop.example.com/gift"))
	e.does(`kubectl patch order lamps --type=merge -p '{"spec":{"item":"book"}}'`)
	e.Eventually(lamps.row).Should(Equal("lamps book 3 3"))
	e.Eventually(lamps.events).Should(ContainElement(HavePrefix("HandlerRecovered: ")))
	e.does("kubectl delete orders,parcels --all")
	may.delete()
	e.logs(`Recalled`)
	e.silent("forbidden")
}
