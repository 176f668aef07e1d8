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

// replicaSets returns the replica sets of a namespace by the image of their pods. Each revision of a deployment has
// one.
func replicaSets(ctx context.Context, ns string) map[string]*appsv1.ReplicaSet {
	GinkgoHelper()
	var list appsv1.ReplicaSetList
	Expect(k8s.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	sets := map[string]*appsv1.ReplicaSet{}
	for i := range list.Items {
		sets[list.Items[i].Spec.Template.Spec.Containers[0].Image] = &list.Items[i]
	}
	Expect(sets).To(HaveLen(len(list.Items)), "each revision must have one replica set")
	return sets
}

var _ = Describe("An operator for deployments and their replica sets", func() {
	typed := func(d *callLog) []kopf.Option {
		return []kopf.Option{all(&appsv1.Deployment{}, d), all(&appsv1.ReplicaSet{}, d)}
	}
	loose := func(d *callLog) []kopf.Option {
		return []kopf.Option{
			all(kopf.Unstructured(appsv1.SchemeGroupVersion.WithKind("Deployment")), d),
			all(kopf.Unstructured(appsv1.SchemeGroupVersion.WithKind("ReplicaSet")), d),
		}
	}
	with := func(prefix string, handlers func(*callLog) []kopf.Option) func(*callLog) []kopf.Option {
		return func(d *callLog) []kopf.Option {
			return append(handlers(d),
				kopf.WithProgress(progress.Annotations(prefix)), kopf.WithBaseline(progress.AnnotationBaseline(prefix)))
		}
	}

	// KEY-13, kopf issue 652: Kubernetes copies the annotations of a deployment to its replica sets, including the
	// last-handled configuration and the progress of handlers.
	DescribeTable("handles the creation of each replica set once despite copied annotations (KEY-13)",
		func(ctx context.Context, prefix string, handlers func(*callLog) []kopf.Option) {
			ns, seen := newNamespace(ctx), &callLog{}
			written := newWriteLog(ns)
			stop := start(ns, handlers(seen)...)
			web := deployment(ns, "web", 0)
			create(ctx, web)
			written.awaitQuiet()
			Expect(seen.of(web)[:2]).To(Equal([]string{"create#0", "create#1"}))
			for _, name := range []string{"main:2", "main:3"} {
				edit(ctx, web, image(name))
				written.awaitQuiet()
			}

			sets := replicaSets(ctx, ns)
			Expect(sets).To(HaveLen(3), "the handlers must not cause rollouts")
			baseline, record := prefix+"/last-handled-configuration", prefix+"/updated"
			for name, set := range sets {
				Expect(seen.of(set)).To(Equal([]string{"create#0", "create#1"}), name)
				Expect(set.Annotations).To(HaveKeyWithValue(baseline, ContainSubstring(name)), "Kubernetes must have copied the baseline of the deployment")
				Expect(set.Annotations).To(HaveKeyWithValue(baseline+"-ofDRS", ContainSubstring("pod-template-hash")), "the replica set must have its own baseline")
				Expect(set.Annotations).NotTo(HaveKey(HaveSuffix("ated-ofDRS")), "the operator must have removed the record of the replica set")
			}
			Expect(sets["main:3"].Annotations).To(HaveKeyWithValue(record, ContainSubstring(`"retries":1`)),
				"Kubernetes must have copied the record of the deployment, which the operator must not continue")
			now, err := fresh(ctx, web)()
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Annotations).To(HaveKeyWithValue(revision, "3"))
			Expect(now.Annotations).NotTo(HaveKey(HaveSuffix("-ofDRS")))
			Expect(now.Annotations).NotTo(HaveKey(record))

			// The revision is part of the essence (ESS-03). The controller writes it together with the edit or later.
			Expect(seen.changes("web")).To(HaveEach(Or(
				Equal("spec.template.spec.containers"), ContainSubstring(revision))))
			Expect(seen.count(web, "create#0")).To(Equal(1))
			Expect(seen.count(web, "update#0")).To(And(BeNumerically(">=", 2), BeNumerically("<=", 5)))

			byUs, byThem := written.count(isOperator), written.count(isController)
			AddReportEntry("writes", fmt.Sprintf("operator %v, controllers %v", byUs, byThem))
			cycles := 1 + seen.count(web, "update#0")
			Expect(byUs).To(Equal(map[string]int{
				"patch deployments": 1 + 2*cycles, // one patch for the finalizer, and two patches for each cycle
				"patch replicasets": 3 * (1 + 2),
			}))
			Expect(byThem["create replicasets"]).To(Equal(3))
			Expect(byThem["update replicasets"]).To(BeNumerically("<=", byUs["patch deployments"]+2), "the controllers must write only the rollouts and one copy for each write of the operator")

			By("restarting the operator with existing objects")
			stop()
			written, before := newWriteLog(ns), seen.size()
			start(ns, handlers(seen)...)
			for name, set := range sets {
				Eventually(seen.of).WithArguments(set).Should(Equal([]string{"create#0", "create#1", "resume#0"}), name)
			}
			written.awaitQuiet()
			Expect(seen.size()).To(Equal(before+4), "the operator must resume each object once")
			Expect(written.count(isOperator)).To(BeEmpty())

			By("deleting the deployment")
			remove(ctx, web, background)
			gone := []client.Object{web}
			for _, set := range sets {
				gone = append(gone, set)
			}
			Eventually(remaining(ctx, gone...)).Should(BeEmpty())
			for _, obj := range gone {
				Expect(seen.of(obj)[len(seen.of(obj))-2:]).To(Equal([]string{"delete#0", "delete#1"}), obj.GetName())
				Expect(seen.count(obj, "delete#0")).To(Equal(1), obj.GetName())
			}
		},
		Entry("typed", SpecTimeout(2*minute), "kopf.zalando.org", typed),
		Entry("untyped", SpecTimeout(2*minute), "kopf.zalando.org", loose),
		Entry("with its own prefix", SpecTimeout(2*minute), "operator.example.com", with("operator.example.com", typed)),
	)

	It("follows a rollout with pods without a loop (KEY-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &callLog{}
		written := newWriteLog(ns)
		start(ns, typed(seen)...)
		web := deployment(ns, "web", 3)
		create(ctx, web)
		written.awaitQuiet()
		edit(ctx, web, image("main:2"))
		edit(ctx, web, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
		written.awaitQuiet()
		edit(ctx, web, image("main:1")) // the rollout scales up the first replica set again
		written.awaitQuiet()

		sets := replicaSets(ctx, ns)
		Expect(sets).To(HaveLen(2))
		for name, set := range sets {
			Expect(seen.of(set)[:2]).To(Equal([]string{"create#0", "create#1"}), name)
			Expect(seen.count(set, "create#0")).To(Equal(1), name)
		}
		Expect(seen.changes("web-")).To(HaveEach(Or(Equal("spec.replicas"), ContainSubstring("deployment.kubernetes.io/"))),
			"only changes of the replica sets must be updates")
		Expect(seen.changes("web-")).NotTo(BeEmpty())
		var pods corev1.PodList
		Expect(k8s.List(ctx, &pods, client.InNamespace(ns))).To(Succeed())
		Expect(pods.Items).To(HaveEach(HaveField("Annotations", BeEmpty())))
		Expect(pods.Items).NotTo(BeEmpty())

		remove(ctx, web, foreground)
		Eventually(remaining(ctx, web, sets["main:1"], sets["main:2"])).Should(BeEmpty())
		for _, obj := range []client.Object{web, sets["main:1"], sets["main:2"]} {
			Expect(seen.count(obj, "delete#0")).To(Equal(1), obj.GetName())
		}
	}, SpecTimeout(2*minute))
})
