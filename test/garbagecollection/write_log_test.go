package garbagecollection

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// writeLog lists the write requests in a namespace since the creation of the writeLog.
type writeLog struct {
	namespace string
	tail      *controlplane.AuditTail
	requests  []controlplane.Request
}

func newWriteLog(namespace string) *writeLog {
	GinkgoHelper()
	l := &writeLog{namespace: namespace, tail: cp.AuditSinceStart()}
	l.read()
	l.requests = nil
	return l
}

func (l *writeLog) read() []controlplane.Request {
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

// count counts the matching writes by verb and resource.
func (l *writeLog) count(who func(controlplane.Request) bool) map[string]int {
	GinkgoHelper()
	counts := map[string]int{}
	for _, r := range l.read() {
		if who(r) {
			counts[strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")]++
		}
	}
	return counts
}

func isOperator(r controlplane.Request) bool   { return strings.HasPrefix(r.UserAgent, operatorAgent) }
func isController(r controlplane.Request) bool { return r.User == controlplane.ControllersUser }

// awaitQuiet waits until the operator and the controllers send no further writes.
func (l *writeLog) awaitQuiet() {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		before := len(l.read())
		g.Consistently(func() int { return len(l.read()) }, awhile).Should(Equal(before))
	}, minute).Should(Succeed())
}
