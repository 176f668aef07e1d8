package peering

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

var _ = Describe("The definition of the kind", func() {
	It("can add and remove the status subresource while operators run (PEER-02)", func(ctx context.Context) {
		own, err := controlplane.Start(controlplane.Options{CRDPaths: []string{crds}, Audit: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Stop)
		served := runtime.NewScheme()
		Expect(v1.AddToScheme(served)).To(Succeed())
		Expect(apiextensionsv1.AddToScheme(served)).To(Succeed())
		c, err := client.New(own.Config, client.Options{Scheme: served})
		Expect(err).NotTo(HaveOccurred())
		object := &v1.ClusterKopfPeering{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		Expect(c.Create(ctx, object)).To(Succeed())
		tail := own.AuditSinceStart()

		const lifetime = 15 * time.Second
		high := startOperatorWithConfig(own.Config, manager.Options{}, peering.Options{Identity: "high", Priority: 1, Lifetime: lifetime})
		low := startOperatorWithConfig(own.Config, manager.Options{}, peering.Options{Identity: "low", Lifetime: lifetime})
		written := func(identity string) func() time.Time {
			return func() time.Time {
				Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				var record peering.Record
				if raw := object.Status[identity].Raw; raw != nil {
					Expect(json.Unmarshal(raw, &record)).To(Succeed())
				}
				return record.LastSeen
			}
		}
		Eventually(high.is("")).Should(works())
		Eventually(low.is("")).Should(pausedBecause(`"high"`))
		low.mu.Lock()
		low.transitions = nil
		low.mu.Unlock()

		dead := map[bool]string{ // expired records; the key is true for the status subresource
			true:  `{"status": {"old": {"lifetime": 1, "lastseen": "2020-12-31T23:59:59Z"}}}`,
			false: `{"status": {"older": {"lifetime": 1, "lastseen": "2020-12-31T23:59:59Z"}}}`,
		}
		for _, subresource := range []bool{true, false} {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			Expect(c.Get(ctx, client.ObjectKey{Name: v1.ClusterPlural + "." + v1.Group}, crd)).To(Succeed())
			crd.Spec.Versions[0].Subresources = nil
			if subresource {
				crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
			}
			Expect(c.Update(ctx, crd)).To(Succeed())
			changed := time.Now()
			patch := client.RawPatch("application/merge-patch+json", []byte(dead[subresource]))
			Eventually(func(g Gomega) { // the request fails until the API server applies the CRD
				if subresource {
					g.Expect(c.Status().Patch(ctx, object, patch)).To(Succeed())
				} else {
					g.Expect(c.Patch(ctx, object, patch)).To(Succeed())
				}
				g.Expect(object.Status).To(HaveLen(3))
			}).Should(Succeed())
			for _, identity := range []string{"high", "low"} {
				Eventually(written(identity)).Should(BeTemporally(">", changed.Add(lifetime)), identity)
			}
			Eventually(func() v1.Records { written("high")(); return object.Status }).Should(And(HaveLen(2), HaveKey("high"), HaveKey("low")))
			Expect(high.is("")()).To(works())
			Expect(low.is("")()).To(pausedBecause(`"high"`))
		}
		low.mu.Lock()
		defer low.mu.Unlock()
		Expect(low.transitions).To(BeEmpty(), "the operator must stay paused")
		requests, err := tail.Next()
		Expect(err).NotTo(HaveOccurred())
		patches := 0
		for _, r := range requests {
			if r.Verb == "patch" && r.Group == v1.Group {
				patches++
			}
		}
		Expect(patches).To(BeNumerically("<", 100), "failed writes must not be repeated continuously")
		high.stop()
	}, SpecTimeout(specTimeout))
})
