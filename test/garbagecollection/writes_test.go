package garbagecollection

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A ledger is what was written in a namespace since it was opened.
type ledger struct {
	namespace string
	tail      *controlplane.AuditTail
	requests  []controlplane.Request
}

func openLedger(namespace string) *ledger {
	GinkgoHelper()
	l := &ledger{namespace: namespace, tail: cp.Audit()}
	l.read()
	l.requests = nil
	return l
}

func (l *ledger) read() []controlplane.Request {
	GinkgoHelper()
	requests, err := l.tail.Next()
	Expect(err).NotTo(HaveOccurred())
	for _, r := range requests {
		if r.Namespace == l.namespace && r.Code < 300 {
			l.requests = append(l.requests, r)
		}
	}
	return l.requests
}

// by counts the writes of the operator, or of the controllers, by resource.
func (l *ledger) by(who func(controlplane.Request) bool) map[string]int {
	GinkgoHelper()
	counts := map[string]int{}
	for _, r := range l.read() {
		if who(r) {
			counts[strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")]++
		}
	}
	return counts
}

func operator(r controlplane.Request) bool    { return strings.HasPrefix(r.UserAgent, operatorAgent) }
func controllers(r controlplane.Request) bool { return r.User == controlplane.ControllersUser }

// quiet waits until nobody writes any more.
func (l *ledger) quiet() {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		before := len(l.read())
		g.Consistently(func() int { return len(l.read()) }, awhile).Should(Equal(before))
	}, minute).Should(Succeed())
}
