package main

import (
	"fmt"
	"testing"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/09-testing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The mail server has the quota of the mailbox under every fault, and no mailbox after the deletion.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		server := mailServer()
		return kopftest.Scenario{
			Given:    kopftest.Given{Scheme: newScheme()},
			Operator: func() []kopf.Option { return []kopf.Option{mailboxes(server)} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newMailbox(100)) },
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newMailbox(0), func(box *v1.Mailbox) { box.Spec.Quota = 200 })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newMailbox(0)) },
			},
			ExternalState: func() any { return fmt.Sprint(server.quotas) },
		}
	}, kopftest.WithMaxPlans(10))
}
