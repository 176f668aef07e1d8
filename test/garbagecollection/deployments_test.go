package garbagecollection

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const revision = "deployment.kubernetes.io/revision"

// replicaSets are those of a namespace by the image of their pods: each revision of a deployment has one.
func replicaSets(ctx context.Context, ns string) map[string]*appsv1.ReplicaSet {
	GinkgoHelper()
	var list appsv1.ReplicaSetList
	Expect(k8s.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	sets := map[string]*appsv1.ReplicaSet{}
	for i := range list.Items {
		sets[list.Items[i].Spec.Template.Spec.Containers[0].Image] = &list.Items[i]
	}
	Expect(sets).To(HaveLen(len(list.Items)), "one for each revision")
	return sets
}

var _ = Describe("An operator for deployments and their replica sets", func() {
	typed := func(d *diary) []kopf.Option {
		return []kopf.Option{all(&appsv1.Deployment{}, d), all(&appsv1.ReplicaSet{}, d)}
	}
	loose := func(d *diary) []kopf.Option {
		return []kopf.Option{
			all(kopf.Unstructured(appsv1.SchemeGroupVersion.WithKind("Deployment")), d),
			all(kopf.Unstructured(appsv1.SchemeGroupVersion.WithKind("ReplicaSet")), d),
		}
	}
	with := func(prefix string, handlers func(*diary) []kopf.Option) func(*diary) []kopf.Option {
		return func(d *diary) []kopf.Option {
			return append(handlers(d),
				kopf.WithProgress(progress.Annotations(prefix)), kopf.WithBaseline(progress.AnnotationBaseline(prefix)))
		}
	}

	// KEY-13, kopf issue 652: Kubernetes copies the annotations of a deployment to its replica sets, when it makes
	// them and whenever they change: the last handled configuration, and the progress of handlers.
	DescribeTable("sees each replica set created once, whatever is copied to it (KEY-13)",
		func(ctx context.Context, prefix string, handlers func(*diary) []kopf.Option) {
			ns, seen := newNamespace(ctx), &diary{}
			written := openLedger(ns)
			stop := start(ns, handlers(seen)...)
			web := deployment(ns, "web", 0)
			create(ctx, web)
			written.quiet()
			Expect(seen.of(web)[:2]).To(Equal([]string{"create#0", "create#1"}))
			for _, name := range []string{"main:2", "main:3"} {
				edit(ctx, web, image(name))
				written.quiet()
			}

			sets := replicaSets(ctx, ns)
			Expect(sets).To(HaveLen(3), "the handlers have led to no rollouts")
			baseline, record := prefix+"/last-handled-configuration", prefix+"/updated"
			for name, set := range sets {
				Expect(seen.of(set)).To(Equal([]string{"create#0", "create#1"}), name)
				Expect(set.Annotations).To(HaveKeyWithValue(baseline, ContainSubstring(name)), "a copy")
				Expect(set.Annotations).To(HaveKeyWithValue(baseline+"-ofDRS", ContainSubstring("pod-template-hash")), "its own")
				Expect(set.Annotations).NotTo(HaveKey(HaveSuffix("ated-ofDRS")), "no progress of its own is left")
			}
			Expect(sets["main:3"].Annotations).To(HaveKeyWithValue(record, ContainSubstring(`"retries":1`)),
				"a copy of progress, from which nobody must go on")
			now, err := fresh(ctx, web)()
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Annotations).To(HaveKeyWithValue(revision, "3"))
			Expect(now.Annotations).NotTo(HaveKey(HaveSuffix("-ofDRS")))
			Expect(now.Annotations).NotTo(HaveKey(record))

			// The revision, which the controller writes, is essential (ESS-03): with the edit, or after it.
			Expect(seen.changes("web")).To(HaveEach(Or(
				Equal("spec.template.spec.containers"), ContainSubstring(revision))))
			Expect(seen.count(web, "create#0")).To(Equal(1))
			Expect(seen.count(web, "update#0")).To(And(BeNumerically(">=", 2), BeNumerically("<=", 5)))

			byUs, byThem := written.by(operator), written.by(controllers)
			AddReportEntry("writes", fmt.Sprintf("operator %v, controllers %v", byUs, byThem))
			cycles := 1 + seen.count(web, "update#0")
			Expect(byUs).To(Equal(map[string]int{
				"patch deployments": 1 + 2*cycles, // the finalizer, and two attempts each
				"patch replicasets": 3 * (1 + 2),
			}))
			Expect(byThem["create replicasets"]).To(Equal(3))
			Expect(byThem["update replicasets"]).To(BeNumerically("<=", byUs["patch deployments"]+2), "one copy a write, and the rollouts")

			By("starting again over what is there")
			stop()
			written, before := openLedger(ns), seen.size()
			start(ns, handlers(seen)...)
			for name, set := range sets {
				Eventually(seen.of).WithArguments(set).Should(Equal([]string{"create#0", "create#1", "resume#0"}), name)
			}
			written.quiet()
			Expect(seen.size()).To(Equal(before+4), "each is resumed")
			Expect(written.by(operator)).To(BeEmpty())

			By("deleting")
			remove(ctx, web, background)
			gone := []client.Object{web}
			for _, set := range sets {
				gone = append(gone, set)
			}
			Eventually(left(ctx, gone...)).Should(BeEmpty())
			for _, obj := range gone {
				Expect(seen.of(obj)[len(seen.of(obj))-2:]).To(Equal([]string{"delete#0", "delete#1"}), obj.GetName())
				Expect(seen.count(obj, "delete#0")).To(Equal(1), obj.GetName())
			}
		},
		Entry("typed", SpecTimeout(2*minute), "kopf.zalando.org", typed),
		Entry("untyped", SpecTimeout(2*minute), "kopf.zalando.org", loose),
		Entry("under a prefix of its own", SpecTimeout(2*minute), "operator.example.com", with("operator.example.com", typed)),
	)

	It("follows a rollout with pods without a loop (KEY-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &diary{}
		written := openLedger(ns)
		start(ns, typed(seen)...)
		web := deployment(ns, "web", 3)
		create(ctx, web)
		written.quiet()
		edit(ctx, web, image("main:2"))
		edit(ctx, web, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
		written.quiet()
		edit(ctx, web, image("main:1")) // back to the first replica set
		written.quiet()

		sets := replicaSets(ctx, ns)
		Expect(sets).To(HaveLen(2))
		for name, set := range sets {
			Expect(seen.of(set)[:2]).To(Equal([]string{"create#0", "create#1"}), name)
			Expect(seen.count(set, "create#0")).To(Equal(1), name)
		}
		Expect(seen.changes("web-")).To(HaveEach(Or(Equal("spec.replicas"), ContainSubstring("deployment.kubernetes.io/"))),
			"what has happened to the replica sets themselves, and that alone")
		Expect(seen.changes("web-")).NotTo(BeEmpty())
		var pods corev1.PodList
		Expect(k8s.List(ctx, &pods, client.InNamespace(ns))).To(Succeed())
		Expect(pods.Items).To(HaveEach(HaveField("Annotations", BeEmpty())))
		Expect(pods.Items).NotTo(BeEmpty())

		remove(ctx, web, foreground)
		Eventually(left(ctx, web, sets["main:1"], sets["main:2"])).Should(BeEmpty())
		for _, obj := range []client.Object{web, sets["main:1"], sets["main:2"]} {
			Expect(seen.count(obj, "delete#0")).To(Equal(1), obj.GetName())
		}
	}, SpecTimeout(2*minute))
})
