package kopftest

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func TestExplore_FindsNothingInIdempotentHandlers(t *testing.T) {
	report := explore.Explore(t, runner(scenarioOf(func(r *kopf.Resource[*corev1.Pod], outside *cloud) {
		r.OnCreate("volume", func(_ context.Context, req *podRequest) error {
			outside.volumes = []string{req.Object.Name}
			return nil
		})
		r.OnDelete("free", func(context.Context, *podRequest) error {
			outside.volumes = nil
			return nil
		})
	}), nil), explore.Options{Pairs: true, Sample: 60, Skip: func(plan explore.Plan) bool { return plan[0].Stale }})
	NewWithT(t).Expect(report.Violations).To(BeEmpty())
}

func TestExplore_FindsHandlersThatAreNotIdempotent(t *testing.T) {
	g := NewWithT(t)
	report := explore.Explore(t, runner(scenarioOf(func(r *kopf.Resource[*corev1.Pod], outside *cloud) {
		r.OnCreate("volume", func(_ context.Context, req *podRequest) error {
			outside.volumes = append(outside.volumes, req.Object.Name)
			return nil
		})
	}), nil), explore.Options{})
	g.Expect(report.Violations).NotTo(BeEmpty())
	first := report.Violations[0]
	g.Expect(first.Plan.String()).To(Equal("crash-before@1"))
	g.Expect(first.Text).To(ContainSubstring("the external state is [orders orders], expected [orders]; called again: volume (create, attempt 0) of default/orders"))
	again := explore.Explore(t, runner(scenarioOf(robust), nil), explore.Options{Only: first.Plan})
	g.Expect(again.Violations).To(BeEmpty())
	g.Expect(again.Ran).To(BeNumerically(">", 1))
}

// After a restart with a stale first list, a handler that reads only from the cache can be wrong.
func TestExplore_FindsHandlersThatTrustStaleLists(t *testing.T) {
	g := NewWithT(t)
	report := explore.Explore(t, runner(scenarioOf(func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
		r.Owns(&corev1.Secret{}).OnReconcile("secret", func(ctx context.Context, req *podRequest) error {
			var secrets corev1.SecretList
			if err := req.Client.List(ctx, &secrets); err != nil || len(secrets.Items) > 0 || req.Object.DeletionTimestamp != nil {
				return err
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "orders-"}}
			if err := req.Adopt(secret); err != nil {
				return err
			}
			return req.Client.Create(ctx, secret)
		})
	}), nil), explore.Options{})
	var plans []string
	for _, v := range report.Violations {
		plans = append(plans, v.Plan.String())
	}
	g.Expect(plans).To(ContainElement("crash-after@1/list@0"))
	g.Expect(plans).NotTo(ContainElement("crash-after@1"))
}

// After a restart with a stale first list, the operator observes the object and then its deletion. It cannot detect
// that the handler was already called.
func TestExplore_AcceptsRepeatedCallsOfOptionalDeleteHandlers(t *testing.T) {
	g := NewWithT(t)
	stale := false
	report := explore.Explore(t, runner(scenarioOf(func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
		r.OnDelete("free", func(context.Context, *podRequest) error { return nil })
		r.OnDelete("notify", func(context.Context, *podRequest) error { return nil }, kopf.Optional())
	}), nil), explore.Options{Skip: func(plan explore.Plan) bool {
		stale = stale || plan[0].Stale
		return !plan[0].Stale
	}})
	g.Expect(stale).To(BeTrue())
	g.Expect(report.Violations).To(BeEmpty())
}

// Explore restarts the operator after each crash.
func TestExplore_RestartsTheOperator(t *testing.T) {
	g := NewWithT(t)
	run := runner(scenarioOf(robust), nil)(t, explore.Plan{{Kind: explore.CrashAfter, At: 1}, {Kind: explore.CrashBefore, At: 4}, {Kind: explore.Unseen, At: 1}})
	g.Expect(run.Problem).To(BeEmpty())
	g.Expect(run.Starts).To(Equal(3))
	g.Expect(run.Injected).To(Equal(3))
}

func TestExplore_ReadsItsEnvironmentVariables(t *testing.T) {
	g := NewWithT(t)
	t.Setenv(allVariable, "")
	t.Setenv(planVariable, "")
	opts := []ExploreOption{WithMaxPlans(7), WithPairs()}
	g.Expect(exploreOptions(opts)).To(Equal(explore.Options{Pairs: true, Sample: 7}))

	t.Setenv(allVariable, "1")
	g.Expect(exploreOptions(opts)).To(Equal(explore.Options{Pairs: true}))

	t.Setenv(planVariable, "crash-after@3")
	g.Expect(exploreOptions(opts)).To(HaveField("Only", explore.Plan{{Kind: explore.CrashAfter, At: 3}}))

	t.Setenv(planVariable, "crash-around@3")
	_, err := exploreOptions(opts)
	g.Expect(err).To(MatchError(ContainSubstring("environment variable KOPFTEST_PLAN: ")))
}
