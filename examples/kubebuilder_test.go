package examples

import (
	. "github.com/onsi/gomega"
)

// It runs with the rights of its config/rbac, and with no others.
func kubebuilder(e *example) {
	e.start("-health-probe-bind-address=" + freeAddress(e))
	lamps, may, gift := e.sample("lamps"), e.sample("may"), e.sample("gift")
	e.apply()
	e.Eventually(lamps.row).Should(Equal("lamps lamp 2 2"))
	e.Eventually(may.field("status", "total")).Should(Equal(int64(1190)))
	e.Eventually(gift.field("status", "label")).Should(Equal("to Oslo"))
	e.Eventually(gift.field("metadata", "finalizers")).Should(HaveLen(1))
	e.Expect(may.get("metadata", "finalizers")).To(BeNil())
	e.Expect(may.get("metadata", "annotations")).To(BeNil())

	lamps.patch(`{"spec":{"quantity":3}}`)
	e.logs(`there are not enough of them`)
	lamps.patch(`{"spec":{"item":"book"}}`)
	e.Eventually(lamps.row).Should(Equal("lamps book 3 3"))
	e.Eventually(lamps.events).Should(ContainElement(HavePrefix("HandlerRecovered: ")))
	for _, sample := range []object{lamps, may, gift} {
		sample.delete()
	}
	e.logs(`Recalled`)
	e.silent("forbidden")
}
