package examples

import (
	. "github.com/onsi/gomega"
)

// The walkthrough plays the sharder with kubectl, as the README does.
func sharded(e *example) {
	const shard, drain = "shard.alpha.sharding.timebertt.dev/databases", "drain.alpha.sharding.timebertt.dev/databases"
	e.run("kubectl apply -f config/samples")
	one, two := e, e.secondProcess()
	one.start("--shard=one", "--lease-namespace=default")
	two.start("--shard=two", "--lease-namespace=default")
	orders := e.sample("orders")

	e.run("kubectl label database orders " + shard + "=one")
	one.waitForLog("Provisioning")
	one.waitForLog("Watching")
	e.run("kubectl label database orders " + drain + "=true")
	one.waitForLog("Stopped watching", "object out of scope")
	e.Eventually(func() any { return orders.get("metadata", "labels") }).Should(BeNil())

	e.run("kubectl label database orders " + shard + "=two")
	two.waitForLog("Reconnecting")
	e.run(`kubectl patch database orders --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	two.waitForLog("Resizing", `"to": 20`)
	one.expectNoLog("Resizing")
	two.expectNoLog("Provisioning")

	e.run("kubectl delete -f config/samples")
	e.earlier = append(e.earlier, two.lines()...) // the README shows the logs of both operators
}
