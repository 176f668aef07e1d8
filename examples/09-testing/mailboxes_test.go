package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/09-testing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func newMailbox(quota int) *v1.Mailbox {
	return &v1.Mailbox{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: v1.MailboxSpec{Quota: quota}}
}

func mailServer() *memory { return &memory{quotas: map[string]int{}} }

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}

// The first three tests call one handler once.
func TestOpen_RetriesWhenTheServerIsBusy(t *testing.T) {
	g := NewWithT(t)
	got := kopftest.Invoke(t, open(&memory{busy: 1}), newMailbox(100))
	g.Expect(got.Outcome.Err).To(MatchError(errBusy))
	g.Expect(got.Outcome.Delay).To(Equal(5 * time.Second))
	g.Expect(got.Changes).To(BeEmpty())
}

func TestOpen_RejectsAMissingQuota(t *testing.T) {
	got := kopftest.Invoke(t, open(mailServer()), newMailbox(0))
	NewWithT(t).Expect(got.Outcome.Final).To(BeTrue(), "the engine must not retry the handler")
}

func TestResize_PostsAnEvent(t *testing.T) {
	g := NewWithT(t)
	server := &memory{quotas: map[string]int{"orders": 1}}
	got := kopftest.Invoke(t, resize(server), newMailbox(200), kopftest.WithOldObject(newMailbox(100)), kopftest.WithField("spec.quota"))
	g.Expect(got.Outcome.Err).NotTo(HaveOccurred())
	g.Expect(got.Events).To(ConsistOf(HaveField("Note", "from 100 to 200")))
	g.Expect(server.quotas).To(HaveKeyWithValue("orders", 200))
}

// slow is a server that takes an hour for each mailbox, unless its context is cancelled.
type slow struct{ *memory }

func (s slow) Open(ctx context.Context, name string, quota int) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(time.Hour):
		return s.memory.Open(ctx, name, quota)
	}
}

// Each case runs one cycle of the whole operator, in memory and in virtual time.
func TestCycles(t *testing.T) {
	for name, test := range map[string]struct {
		quota   int
		busy    int
		called  []string
		requeue time.Duration
		address string
	}{
		"new mailbox":   {100, 0, []string{"open", "resize/spec.quota"}, 0, "orders@example.com"},
		"busy server":   {100, 1, []string{"open", "resize/spec.quota"}, 5 * time.Second, ""},
		"missing quota": {0, 0, []string{"open", "resize/spec.quota"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := mailServer()
			server.busy = test.busy
			box := newMailbox(test.quota)
			report := kopftest.Cycle(t, kopftest.Given{Scheme: newScheme(), Objects: []client.Object{box}}, mailboxes(server))
			g.Expect(report.Handlers()).To(Equal(test.called))
			g.Expect(report.RequeueAfter).To(BeNumerically("~", test.requeue, time.Second))
			g.Expect(report.Get(t, box)).To(BeTrue())
			g.Expect(box.Status.Address).To(Equal(test.address))
		})
	}
}

// The operator retries for an hour of virtual time.
func TestMailbox_IsOpenedAfterManyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := mailServer()
		server.busy = 720
		box, began := newMailbox(100), time.Now()
		cluster := kopftest.Memory(t, kopftest.Types(newScheme()), kopftest.Objects(box))
		cluster.Run(t, mailboxes(server)).RunUntilQuiet(t)
		cluster.Get(t, box)
		g.Expect(box).To(kopftest.HaveHandled())
		g.Expect(box.Status.Address).To(Equal("orders@example.com"))
		g.Expect(time.Since(began)).To(BeNumerically(">=", time.Hour))
	})
}

// The operator opens a rejected mailbox when its quota is corrected.
func TestMailbox_IsOpenedAfterACorrection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server, box := NewWithT(t), mailServer(), newMailbox(0)
		cluster := kopftest.Memory(t, kopftest.Types(newScheme()), kopftest.Objects(box))
		operator := cluster.Run(t, mailboxes(server))
		operator.RunUntilQuiet(t)
		g.Expect(server.quotas).To(BeEmpty())
		kopftest.Edit(t, cluster, box, func(box *v1.Mailbox) { box.Spec.Quota = 100 })
		operator.RunUntilQuiet(t)
		cluster.Get(t, box)
		g.Expect(box.Status.Address).To(Equal("orders@example.com"))
		g.Expect(server.quotas).To(HaveKeyWithValue("orders", 100))
	})
}

// Crashes, conflicts, lost responses and shutdowns do not change the result.
func TestHandlers_TolerateFaults(t *testing.T) {
	kopftest.Check(t, func() kopftest.Scenario {
		server := mailServer()
		return kopftest.Scenario{
			Given:    kopftest.Given{Scheme: newScheme(), Objects: []client.Object{newMailbox(100)}},
			Operator: func() []kopf.Option { return []kopf.Option{mailboxes(server)} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newMailbox(0), func(box *v1.Mailbox) { box.Spec.Quota = 200 })
				},
			},
			ExternalState: func() any { return fmt.Sprint(server.quotas) },
		}
	})
}

// The state of a mailbox depends on its spec, and not on earlier specs. The filter excludes a quota of zero: the handlers reject it and keep the existing
// mailbox.
func TestMailbox_DependsOnItsSpecOnly(t *testing.T) {
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario {
		server := mailServer()
		return kopftest.Scenario{
			Given:         kopftest.Given{Scheme: newScheme()},
			Operator:      func() []kopf.Option { return []kopf.Option{mailboxes(server)} },
			ExternalState: func() any { return fmt.Sprint(server.quotas) },
		}
	}, 20, kopftest.WithFilter(func(box *unstructured.Unstructured) bool {
		quota, _, _ := unstructured.NestedInt64(box.Object, "spec", "quota")
		return quota > 0
	}))
}

// Handlers pass their contexts to the server. Otherwise, a slow server would block the shutdown of the operator.
func TestHandlers_StopWhileTheServerIsSlow(t *testing.T) {
	kopftest.Check(t, func() kopftest.Scenario {
		server := mailServer()
		return kopftest.Scenario{
			Given:         kopftest.Given{Scheme: newScheme(), Objects: []client.Object{newMailbox(100)}},
			Operator:      func() []kopf.Option { return []kopf.Option{mailboxes(slow{server})} },
			ExternalState: func() any { return fmt.Sprint(server.quotas) },
		}
	})
}

// cluster is a real API server.
var cluster *kopftest.Cluster

func TestMain(m *testing.M) {
	os.Exit(kopftest.Main(m, &cluster, kopftest.Types(newScheme()), kopftest.CRDs("config/crd")))
}

// The operator opens and closes a mailbox on a real API server.
func TestMailbox_OnARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	g, cluster, server := NewWithT(t), cluster.ForTest(t), mailServer()
	operator := cluster.Run(t, mailboxes(server))
	box := newMailbox(100)
	cluster.Create(t, box)
	operator.RunUntilQuiet(t)
	cluster.Get(t, box)
	g.Expect(box).To(And(kopftest.HaveHandled(), kopftest.HaveFinalizer()))
	g.Expect(box.Status.Address).To(Equal("orders@example.com"))

	cluster.Delete(t, box)
	operator.RunUntilQuiet(t)
	g.Expect(server.quotas).To(BeEmpty())
}
