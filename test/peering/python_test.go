package peering

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// kopfOperator simulates an operator of kopf at one peering object. It writes the same bytes as kopf and interprets the
// records of others in the same way.
type kopfOperator struct {
	at       peeringObject
	identity string
	priority int
	lifetime int
	skew     time.Duration // offset of the operator's clock
}

func (p kopfOperator) now() time.Time { return time.Now().Add(p.skew) }

// writeRecord writes the record (PEER-04, PEER-05, PEER-08, PEER-20).
func (p kopfOperator) writeRecord(ctx context.Context) {
	GinkgoHelper()
	now := p.now().UTC().Truncate(time.Microsecond)
	lastSeen := now.Format("2006-01-02T15:04:05.000000") + "+00:00"
	if now.Nanosecond() == 0 {
		lastSeen = now.Format("2006-01-02T15:04:05") + "+00:00"
	}
	p.at.patch(ctx, fmt.Sprintf(`{"status": {"%s": {"priority": %d, "lifetime": %d, "lastseen": "%s"}}}`, p.identity, p.priority, p.lifetime, lastSeen))
}

// removeRecord removes the record (PEER-21).
func (p kopfOperator) removeRecord(ctx context.Context) {
	GinkgoHelper()
	p.at.patch(ctx, fmt.Sprintf(`{"status": {"%s": null}}`, p.identity))
}

// paused reports whether peers pause the operator (PEER-06, PEER-07, PEER-30, PEER-32). It fails the test where kopf
// would raise an exception.
func (p kopfOperator) paused(ctx context.Context) bool {
	GinkgoHelper()
	for identity, value := range p.at.status(ctx) {
		record, isMap := value.(map[string]any)
		Expect(isMap).To(BeTrue(), "kopf supports only mappings")
		Expect(record).NotTo(HaveKey("identity"), "MIG-10: the record must not contain the identity")
		priority, isInt := record["priority"].(int64)
		Expect(isInt).To(BeTrue(), "PEER-04: the priority must be an integer")
		lifetime, isInt := record["lifetime"].(int64)
		Expect(isInt).To(BeTrue(), "PEER-04: the lifetime must be an integer")
		seen, err := time.Parse("2006-01-02T15:04:05-07:00", record["lastseen"].(string))
		Expect(err).NotTo(HaveOccurred(), "PEER-05: the time must have the format of kopf")
		alive := seen.Add(time.Duration(lifetime) * time.Second).After(p.now())
		if identity != p.identity && alive && int(priority) >= p.priority {
			return true
		}
	}
	return false
}

func newKopfOperator(at peeringObject, priority int) kopfOperator {
	suffix := "abc"[rand.IntN(3):][:1] + "x7"
	return kopfOperator{at: at, identity: "ann@laptop.example.com/20201231235959/" + suffix, priority: priority, lifetime: 60}
}

var _ = Describe("Operators in Python and in Go", func() {
	for _, group := range []string{v1.Group, v1.LegacyGroup} {
		for _, namespaced := range []bool{false, true} {
			var options peering.Options
			// begin creates a peering object and the options of its operator.
			begin := func(ctx context.Context) peeringObject {
				at := peeringObject{group: group, name: unique()}
				options = peering.Options{Name: at.name, Identity: "gopher@host/20201231235959/abc", Mandatory: true}
				if namespaced {
					at.namespace = newNamespace(ctx)
					options.Namespaces = []string{at.namespace}
				}
				return at.create(ctx)
			}
			title := fmt.Sprintf("(%s, namespaced: %t)", group, namespaced)

			It("pause for each other "+title+" (PEER-01, PEER-02, PEER-32, PEER-44, MIG-08, MIG-09)", func(ctx context.Context) {
				at := begin(ctx)
				kopf := newKopfOperator(at, 0)
				kopf.writeRecord(ctx)
				Expect(kopf.paused(ctx)).To(BeFalse())

				By("giving the Go operator precedence")
				options.Priority = 10
				o := startOperator(options)
				Eventually(o.is(at.namespace)).Should(works())
				Expect(kopf.paused(ctx)).To(BeTrue())
				o.stop()
				Expect(kopf.paused(ctx)).To(BeFalse())
				Expect(at.identities(ctx)).To(Equal([]string{kopf.identity}))

				By("giving the Python operator precedence")
				options.Priority = -10
				o = startOperator(options)
				Eventually(o.is(at.namespace)).Should(pausedBecause(kopf.identity))
				Expect(kopf.paused(ctx)).To(BeFalse())
				kopf.removeRecord(ctx)
				Eventually(o.is(at.namespace)).Should(works())
				kopf.writeRecord(ctx)
				Eventually(o.is(at.namespace)).Should(isPaused())

				By("giving both operators the same priority")
				kopf.removeRecord(ctx)
				kopf.priority = -10
				kopf.writeRecord(ctx)
				Eventually(o.is(at.namespace)).Should(pausedBecause("the same priority"))
				Expect(kopf.paused(ctx)).To(BeTrue())
				kopf.removeRecord(ctx)
				Eventually(o.is(at.namespace)).Should(works())
			}, SpecTimeout(specTimeout))

			It("write the same requests "+title+" (PEER-02, PEER-04, PEER-05, PEER-08)", func(ctx context.Context) {
				at := begin(ctx)
				tail := cp.AuditSinceStart()
				o := startOperator(options)
				Eventually(o.is(at.namespace)).Should(works())
				o.stop()
				requests, err := tail.Next()
				Expect(err).NotTo(HaveOccurred())
				subresource := ""
				if group == v1.LegacyGroup {
					subresource = "status"
				}
				var bodies []string
				for _, r := range requests {
					if r.Verb != "create" && r.Name == at.name && r.Group == group {
						Expect([]any{r.Verb, r.Code, r.Subresource, r.Namespace}).To(Equal([]any{"patch", 200, subresource, at.namespace}))
						bodies = append(bodies, string(r.Body))
					}
				}
				Expect(bodies).To(HaveLen(2))
				Expect(bodies[0]).To(MatchRegexp(`^` + regexp.QuoteMeta(`{"status":{"gopher@host/20201231235959/abc":{"priority":0,"lifetime":60,"lastseen":"20`) +
					`\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?` + regexp.QuoteMeta(`+00:00"}}}`) + `$`))
				Expect(bodies[1]).To(Equal(`{"status":{"gopher@host/20201231235959/abc":null}}`))
			}, SpecTimeout(specTimeout))
		}
	}

	It("pause for each other despite wrong clocks (SE-38)", func(ctx context.Context) {
		for _, skew := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			at := cluster(ctx)
			kopf := newKopfOperator(at, 1)
			kopf.skew, kopf.lifetime = skew, 6
			kopf.writeRecord(ctx)
			o := startOperator(peering.Options{Name: at.name, Identity: "gopher"})
			Eventually(o.is("")).Should(isPaused())
			for range 3 {
				kopf.writeRecord(ctx)
				Consistently(o.is("")).WithTimeout(2 * time.Second).Should(isPaused())
			}
			Eventually(o.is("")).WithTimeout(10 * time.Second).Should(works()) // the record of the killed operator expires
			Eventually(func() []string { return at.identities(ctx) }).Should(Equal([]string{"gopher"}))
			o.stop()
		}
	}, SpecTimeout(specTimeout))

	It("keep unreadable records (PEER-06)", func(ctx context.Context) {
		at := cluster(ctx)
		at.patch(ctx, `{"status": {"text": "x", "list": [1, {"a": null}], "number": 5, "bad": {"priority": "high", "lifetime": 1},
			"future": {"priority": -9, "lifetime": 3600, "lastseen": "2999-01-01T00:00:00Z", "more": {"a": [1.5]}}}}`)
		before, err := json.Marshal(at.status(ctx))
		Expect(err).NotTo(HaveOccurred())
		dead := newKopfOperator(at, 5)
		dead.skew = -time.Hour
		dead.writeRecord(ctx)
		o := startOperator(peering.Options{Name: at.name, Identity: "gopher"})
		Eventually(o.is("")).Should(works())
		Eventually(func() []string { return at.identities(ctx) }).ShouldNot(ContainElement(dead.identity), "the operator must remove dead records although others are unreadable")
		o.stop()
		Expect(json.Marshal(at.status(ctx))).To(MatchJSON(before))
	}, SpecTimeout(specTimeout))
})
