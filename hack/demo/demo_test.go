package main

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
)

const patience = 3 * time.Minute // for an empty build cache

// start runs the demo until it ends, or until the end of the test.
func start(t *testing.T, keep bool) (output *gbytes.Buffer, interrupt func(), ended chan error) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	ctx, cancel := context.WithCancel(t.Context())
	output, ended = gbytes.NewBuffer(), make(chan error, 1)
	go func() {
		ended <- run(ctx, screen.Plain(output), keep)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range ended { // until the channel is closed
		}
	})
	return output, cancel, ended
}

func TestDemo(t *testing.T) {
	g := NewWithT(t)
	output, interrupt, ended := start(t, true)
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
		`you       PATCH   databases/orders         200  {"spec":{"sizeGiB":20}}`,
		`=== 3\. Deleting it`,
		`INFO  The database is to go`,
		`\(deleted\)`,
		`you       DELETE  databases/orders         200`,
		`operator  PATCH   databases/orders         200  {"metadata":{"finalizers":\[\]`,
		`=== Your turn`,
		`export KUBECONFIG=/`,
	} {
		g.Eventually(output).WithTimeout(patience).Should(gbytes.Say(text))
	}
	g.Consistently(ended).WithTimeout(time.Second).ShouldNot(Receive())
	interrupt()
	g.Eventually(ended).WithTimeout(patience).Should(Receive(BeNil()), "that is the regular end")
}

func TestInterrupted(t *testing.T) {
	for _, moment := range []string{"Building the operator", "Starting etcd", "Starting the operator", "kubectl create"} {
		t.Run(moment, func(t *testing.T) {
			g := NewWithT(t)
			output, interrupt, ended := start(t, false)
			g.Eventually(output).WithTimeout(patience).Should(gbytes.Say(moment))
			interrupt()
			g.Eventually(ended).WithTimeout(patience).Should(Receive(MatchError(errInterrupted)))
		})
	}
}
