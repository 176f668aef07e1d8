package examples

import (
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
)

// dayInTheLife is the page that shows this example with kubectl.
const dayInTheLife = "../docs/day-in-the-life.md"

func statusConditions(e *example) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	photos := e.sample("photos")
	becomes := func(row, kind string, status metav1.ConditionStatus, reason string) {
		e.t.Helper()
		e.Eventually(photos.read).Should(conditionstest.HaveCondition(kind, status).WithReason(reason))
		e.Eventually(photos.row).Should(Equal(row))
		e.checkPage(dayInTheLife, row)
	}
	e.start()
	e.run("kubectl apply -f config/samples")
	becomes("photos 10 False Retrying", "Created", no, "Retrying")
	e.Expect(e.run("kubectl describe bucket photos")).To(ContainSubstring("Observed Generation:"))
	e.run("kubectl wait --for=condition=Ready bucket/photos")
	becomes("photos 10 True AsExpected", "Ready", yes, conditions.ReasonAsExpected)
	e.Expect(words(e.run("kubectl get buckets"))).To(ContainElements("photos", "AsExpected"))
	e.waitForLog(`Ready has changed`, `"before": null, "now": "True"`)
	e.Eventually(photos.field("status", "files")).Should(BeEquivalentTo(3))

	e.run(`kubectl patch bucket photos --type=merge -p '{"spec":{"sizeGiB":5000}}'`)
	e.run("kubectl wait --for=condition=Ready=false bucket/photos")
	becomes("photos 5000 False Failed", "Sized", no, "Failed")
	e.waitForLog(`Ready has changed`, `"before": "True", "now": "False"`)
	e.waitForLog(`Still not ready`, `"why": "Failed"`)
	e.run(`kubectl patch bucket photos --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	becomes("photos 20 True AsExpected", "Sized", yes, "Succeeded")
	e.waitForLog(`Ready has changed`, `"before": "False", "now": "True"`)

	e.run(`kubectl patch bucket photos --type=merge -p '{"spec":{"store":"cellar"}}'`)
	becomes("photos 20 False NoSuchStore", "Reachable", no, "NoSuchStore")
	e.waitForLog(`Still not ready`, `"why": "NoSuchStore"`)
	e.run(`kubectl patch bucket photos --type=merge -p '{"spec":{"store":"attic"}}'`)
	becomes("photos 20 True AsExpected", "Reachable", yes, "Connected")

	failed := "HandlerFailed: resize/spec.sizeGiB: 5000 GiB are too many: 1000 at most"
	e.Eventually(photos.events).Should(ConsistOf(Equal(failed),
		HavePrefix("HandlerRecovered: create has succeeded"), HavePrefix("HandlerRecovered: connect/spec.store has succeeded")))
	e.checkPage(dayInTheLife, "resize/spec.sizeGiB: 5000 GiB are too many: 1000 at most")
	e.run("kubectl delete -f config/samples")
	e.Expect(e.countLog(`Ready has changed`)()).To(Equal(3))
	e.expectNoLog("has not taken")
}
