package examples

import (
	. "github.com/onsi/gomega"
)

// kubebuilder runs the manager with the permissions of its config/rbac only.
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

	e.run(`kubectl patch order lamps --type=merge -p '{"spec":{"quantity":3}}'`)
	e.waitForLog(`not enough items in stock`)
	e.Expect(words(e.run("kubectl get orders,invoices,parcels"))).To(ContainElements("order.shop.example.com/lamps", "invoice.shop.example.com/may", "parcel.shop.example.com/gift"))
	e.run(`kubectl patch order lamps --type=merge -p '{"spec":{"item":"book"}}'`)
	e.Eventually(lamps.row).Should(Equal("lamps book 3 3"))
	e.Eventually(lamps.events).Should(ContainElement(HavePrefix("HandlerRecovered: ")))
	e.run("kubectl delete orders,parcels --all")
	may.delete()
	e.waitForLog(`Recalled`)
	e.expectNoLog("forbidden")
}
