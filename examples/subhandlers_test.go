package examples

import (
	. "github.com/onsi/gomega"
)

func subhandlers(e *example) {
	e.start()
	web := e.sample("web")
	e.run("kubectl apply -f config/samples")
	e.Eventually(web.field("metadata", "annotations")).Should(And(
		HaveKeyWithValue("kopf.zalando.org/roll", ContainSubstring(`"subrefs":["roll/amsterdam","roll/atlantis","roll/mumbai","roll/tokyo"]`)),
		HaveKeyWithValue("kopf.zalando.org/roll.amsterdam", ContainSubstring(`"success":true`)),
		HaveKeyWithValue("kopf.zalando.org/roll.atlantis", ContainSubstring(`"failure":true,"message":"there is no region \"atlantis\""`)),
		HaveKeyWithValue("kopf.zalando.org/roll.tokyo", ContainSubstring(`"success":false,"failure":false,"message":"the servers are still booting"`))))
	e.run("kubectl get rollout web -o yaml") // after the wait, because the records exist only for three seconds

	e.waitForLog(`Handled`, `"reason": "create"`)
	deployed := map[string]any{"amsterdam": "web:1.0", "mumbai": "web:1.0", "tokyo": "web:1.0"}
	e.Expect(web.get("status", "regions")).To(Equal(deployed))
	e.Expect(web.get("metadata", "annotations")).To(And(HaveLen(3), HaveKey(lastHandled), HaveKey(HavePrefix(stamp)), HaveKey(lastApplied)), "the engine must remove the records")

	e.run(`kubectl patch rollout web --type=merge -p '{"spec":{"image":"web:1.1","regions":["amsterdam"]}}'`)
	e.waitForLog(`Handled`, `"reason": "update"`)
	e.Expect(web.get("status", "regions")).To(Equal(map[string]any{"amsterdam": "web:1.1"}))
}
