package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	p := begin(t, choice{cluster: own, demo: true, keep: true})
	for _, text := range []string{
		`=== 1\. Creating a database`,
		`INFO  A new database  handler=provision reason=create attempt=0 spec={"engine":"postgres","sizeGiB":10}`,
		`finalizers:`,
		`host: orders.db.example.com`,
		`you       POST    databases/orders         201  {.*"sizeGiB":10`,
		`operator  PATCH   databases/orders         200  {"metadata":{"finalizers":`,
		`operator  PATCH   databases/orders/status  200  {.*"host":"orders.db.example.com"`,
		`operator  PATCH   databases/orders         200  {"metadata":{"annotations":`,
		`=== 2\. Editing it`,
		`INFO  The database has changed  .*diff="change spec.sizeGiB: 10 -> 20"`,
		`last-handled-configuration: \|\n.*"sizeGiB":20`,
		`you       PATCH   databases/orders         200  {"spec":{"sizeGiB":20}}`,
		`=== 3\. Deleting it`,
		`INFO  Dropping the database`,
		`\(deleted\)`,
		`you       DELETE  databases/orders         200`,
		`operator  PATCH   databases/orders         200  {"metadata":{"finalizers":\[\]`,
		`=== Your turn`,
		`export KUBECONFIG=/`,
		`kubectl delete database orders`,
		`you       POST    databases/orders         201`,
		`operator  PATCH   databases/orders/status  200`,
	} {
		p.waitFor(text)
	}
	p.Consistently(p.ended).WithTimeout(time.Second).ShouldNot(Receive())
	p.stopAndWait()
}

func TestDemo_EndsWhenInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	for _, moment := range []string{"Building the operator", "Starting etcd", "Starting the operator", "kubectl create"} {
		t.Run(moment, func(t *testing.T) {
			p := begin(t, choice{cluster: own, demo: true})
			p.waitFor(moment)
			p.stop()
			p.Eventually(p.ended).Should(Receive(MatchError(errInterrupted)))
		})
	}
}
