package examples

import (
	. "github.com/onsi/gomega"
)

func exceptions(e *example) {
	e.start()
	nightly := e.sample("nightly")
	e.run("kubectl apply -f config/samples")
	e.Eventually(nightly.field("metadata", "annotations")).Should(And(
		HaveKeyWithValue("kopf.zalando.org/check", ContainSubstring(`"failure":true`)),
		HaveKeyWithValue("kopf.zalando.org/snapshot", And(
			ContainSubstring(`"success":false,"failure":false`), ContainSubstring(`"message":"the snapshot is not ready yet"`)))))
	// The records exist only for some seconds, unlike the problem.
	e.Eventually(func() string { return e.run("kubectl get backup nightly -o yaml") }).Should(ContainSubstring("only s3 is supported"))

	e.waitForLog(`"handler": "index"`, `will be retried`, `panic: assignment to entry in nil map`, `main.go`)
	e.waitForLog(`Handled`, `"reason": "create"`, `"succeeded": 3, "failed": 4`)
	e.Expect(nightly.get("status", "snapshot")).To(Equal("orders-snapshot"))
	e.Expect(nightly.get("metadata", "annotations")).To(And(HaveLen(3), HaveKey(lastHandled), HaveKey(HavePrefix(stamp)), HaveKey(lastApplied)), "the engine must remove the records")

	e.run(`kubectl patch backup nightly --type=merge -p '{"spec":{"target":"s3://archive/orders"}}'`)
	e.waitForLog(`Handled`, `"reason": "update"`, `"succeeded": 1, "failed": 0`)
	e.Expect(nightly.get("status", "problem")).To(BeNil())
	e.Expect(e.run("kubectl get backups")).To(ContainSubstring("orders-snapshot"))
	e.run("kubectl delete -f config/samples")
}
