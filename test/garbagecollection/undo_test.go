package garbagecollection

import (
	"context"
	"encoding/json"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const baselineKey = progress.DefaultPrefix + "/last-handled-configuration"

// keptByUndo are the annotations of a deployment that kubectl rollout undo does not take from the replica set.
var keptByUndo = []string{
	"deployment.kubernetes.io/desired-replicas",
	"deployment.kubernetes.io/max-replicas",
	"deployment.kubernetes.io/revision",
	"deployment.kubernetes.io/revision-history",
	"deprecated.deployment.rollback.to",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// undo does what kubectl rollout undo does: the template comes back from the replica set, and the annotations with it.
func undo(ctx context.Context, d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	GinkgoHelper()
	now, err := fresh(ctx, d)()
	Expect(err).NotTo(HaveOccurred())
	annotations := map[string]string{}
	for key, value := range now.Annotations {
		if slices.Contains(keptByUndo, key) {
			annotations[key] = value
		}
	}
	for key, value := range set.Annotations {
		if !slices.Contains(keptByUndo, key) {
			annotations[key] = value
		}
	}
	template := set.Spec.Template.DeepCopy()
	delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/spec/template", "value": template},
		{"op": "replace", "path": "/metadata/annotations", "value": annotations},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Patch(ctx, now, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
}

// What was kept on the deployment when the replica set was the present one comes back with it.
var _ = Describe("kubectl rollout undo", func() {
	// undone takes a deployment through three revisions, and back to the second.
	undone := func(ctx context.Context, seen *diary, handlers ...kopf.Option) (*appsv1.Deployment, *ledger) {
		GinkgoHelper()
		ns := newNamespace(ctx)
		written := openLedger(ns)
		start(ns, handlers...)
		web := deployment(ns, "web", 0)
		create(ctx, web)
		written.quiet()
		for _, name := range []string{"main:2", "main:3"} {
			edit(ctx, web, image(name))
			written.quiet()
		}
		seen.clear()
		undo(ctx, web, replicaSets(ctx, ns)["main:2"])
		Eventually(fresh(ctx, web)).Should(HaveField("Annotations", HaveKeyWithValue(revision, "4")))
		return web, written
	}

	It("is an update to the handlers of the deployment, by its revision, and comes to rest", func(ctx context.Context) {
		seen := &diary{}
		web, written := undone(ctx, seen, all(&appsv1.Deployment{}, seen))
		written.quiet()
		Expect(seen.changes("web")).NotTo(BeEmpty())
		Expect(seen.size()).To(BeNumerically("<=", 4), "two causes at most")
		now, err := fresh(ctx, web)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(HaveKeyWithValue(baselineKey, ContainSubstring(`"deployment.kubernetes.io/revision":"4"`)))
		Expect(now.Annotations).NotTo(HaveKey(progress.DefaultPrefix+"/updated"), "a record that came back is not left")
		Expect(replicaSets(ctx, web.Namespace)).To(HaveLen(3))
	}, SpecTimeout(2*minute))

	// The last handled configuration that comes back is that of the revision which comes back.
	It("tells the handlers of the deployment what has changed", func(ctx context.Context) {
		seen := &diary{}
		_, written := undone(ctx, seen, all(&appsv1.Deployment{}, seen))
		written.quiet()
		Expect(seen.changes("web")).To(ContainElement("spec.template.spec.containers"))
	}, SpecTimeout(2*minute))

	// A record has come back, too, and its start may be long ago.
	It("does not have handlers go on where they were at that time", func(ctx context.Context) {
		seen := &diary{}
		web, written := undone(ctx, seen, all(&appsv1.Deployment{}, seen))
		written.quiet()
		Expect(seen.of(web)[0]).To(Equal("update#0"))
	}, SpecTimeout(2*minute))

	// The last handled configuration of the replica set itself, too, comes to the deployment, and is copied over that of
	// the replica set whenever a handler has succeeded.
	It("does not send the handlers of the replica set in circles (KEY-13)", func(ctx context.Context) {
		seen := &diary{}
		_, written := undone(ctx, seen, all(&appsv1.ReplicaSet{}, seen))
		written.quiet()
	}, SpecTimeout(2*minute))
})
