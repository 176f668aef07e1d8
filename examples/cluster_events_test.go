package examples

import (
	"time"

	. "github.com/onsi/gomega"
)

func clusterEvents(e *example) {
	e.start()
	e.run("kubectl apply -f config/samples")
	orders := e.sample("orders")
	e.waitForLog("Starting workers")
	e.Eventually(orders.field("metadata", "annotations", lastHandled)).ShouldNot(BeNil())
	e.run("kubectl apply -f config/events")
	e.Eventually(orders.field("status", "problem")).Should(Equal(`Failed to pull image "postgres:17"`))
	e.Expect(e.run(`kubectl get database orders -o jsonpath='{.status.problem}'`)).To(Equal(`Failed to pull image "postgres:17"`))
	e.Expect(orders.get("metadata", "annotations")).To(HaveKey("kopf-runtime.dev/events.problem"))
	e.run(`kubectl patch event orders-0.failed --type=merge -p '{"count":20}'`)
	e.Consistently(e.countLog("A pod has a problem")).WithTimeout(2 * time.Second).Should(Equal(1))
	for range 2 { // the first restart handles the occurrences that waited for the end of the interval
		e.stop()
		e.start()
		e.waitForLog("Starting workers")
		e.Eventually(e.countLog("A pod has a problem")).Should(Equal(2))
		e.Consistently(e.countLog("A pod has a problem")).WithTimeout(2 * time.Second).Should(Equal(2))
	}
	e.expectNoLog("forbidden")
}
