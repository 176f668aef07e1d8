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

// keptByUndo lists the annotations of a deployment that kubectl rollout undo keeps.
var keptByUndo = []string{
	"deployment.kubernetes.io/desired-replicas",
	"deployment.kubernetes.io/max-replicas",
	"deployment.kubernetes.io/revision",
	"deployment.kubernetes.io/revision-history",
	"deprecated.deployment.rollback.to",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// undo replaces the template and the annotations of the deployment with those of a replica set, like kubectl rollout undo.
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

// The undo restores the annotations that the deployment had at the time of the old revision.
var _ = Describe("kubectl rollout undo", func() {
	// undone creates three revisions of a deployment and rolls back to the second one.
	undone := func(ctx context.Context, seen *callLog, handlers ...kopf.Option) (*appsv1.Deployment, *writeLog) {
		GinkgoHelper()
		ns := newNamespace(ctx)
		written := newWriteLog(ns)
		start(ns, handlers...)
		web := deployment(ns, "web", 0)
		create(ctx, web)
		written.awaitQuiet()
		for _, name := range []string{"main:2", "main:3"} {
			edit(ctx, web, image(name))
			written.awaitQuiet()
		}
		seen.clear()
		undo(ctx, web, replicaSets(ctx, ns)["main:2"])
		Eventually(fresh(ctx, web)).Should(HaveField("Annotations", HaveKeyWithValue(revision, "4")))
		return web, written
	}

	It("is handled as an update of the deployment without a loop", func(ctx context.Context) {
		seen := &callLog{}
		web, written := undone(ctx, seen, all(&appsv1.Deployment{}, seen))
		written.awaitQuiet()
		Expect(seen.changes("web")).NotTo(BeEmpty())
		Expect(seen.size()).To(BeNumerically("<=", 4), "the operator must handle at most two causes")
		now, err := fresh(ctx, web)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(HaveKeyWithValue(baselineKey, ContainSubstring(`"deployment.kubernetes.io/revision":"4"`)))
		Expect(now.Annotations).NotTo(HaveKey(progress.DefaultPrefix+"/updated"), "the operator must remove the restored record")
		Expect(replicaSets(ctx, web.Namespace)).To(HaveLen(3))
	}, SpecTimeout(2*minute))

	// The undo restores the last-handled configuration of the restored revision.
	It("passes the changes to the handlers of the deployment", func(ctx context.Context) {
		seen := &callLog{}
		_, written := undone(ctx, seen, all(&appsv1.Deployment{}, seen))
		written.awaitQuiet()
		Expect(seen.changes("web")).To(ContainElement("spec.template.spec.containers"))
	}, SpecTimeout(2*minute))

	// A restored record may contain an outdated start time.
	It("does not continue the restored progress of handlers", func(ctx context.Context) {
		seen := &callLog{}
		web, written := undone(ctx, seen, all(&appsv1.Deployment{}, seen))
		written.awaitQuiet()
		Expect(seen.of(web)[0]).To(Equal("update#0"))
	}, SpecTimeout(2*minute))

	// The undo also copies the last-handled configuration of the replica set to the deployment. Kubernetes copies the
	// configuration back when a handler succeeds.
	It("does not cause a loop of the handlers of the replica set (KEY-13)", func(ctx context.Context) {
		seen := &callLog{}
		_, written := undone(ctx, seen, all(&appsv1.ReplicaSet{}, seen))
		written.awaitQuiet()
	}, SpecTimeout(2*minute))
})
