package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Patches", func() {
	type W = *v1.Widget
	type U = *unstructured.Unstructured
	const finalizer = "kopf.zalando.org/KopfFinalizerMarker"

	places := func(ns, plural string) (main, status string) {
		main = "/apis/" + v1.GroupVersion.String() + "/namespaces/" + ns + "/" + plural + "/one"
		return main, main + "/status"
	}
	// expectCommonFields checks the fields that all patches share.
	expectCommonFields := func(patches *patchRecorder, obj client.Object) {
		GinkgoHelper()
		for _, patch := range patches.all() {
			Expect(patch.contentType).To(Equal("application/merge-patch+json"), "PATCH-06: want merge patches only")
			Expect(patch.query).NotTo(Or(ContainSubstring("fieldManager"), ContainSubstring("force")), "PATCH-06: the request must not have apply parameters")
			Expect(patch.part("metadata", "uid")).To(Equal(string(obj.GetUID())), "B-06")
		}
	}

	It("are sent separately for the finalizer, the status and other fields, and only if needed (PIPE-10, PIPE-13, PIPE-14)", func(ctx context.Context) {
		ns, seen, patches := newNamespace(ctx), &calls{}, &patchRecorder{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("made", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("made#%d", req.Attempt.Number)
				if req.Old != nil || len(req.Diff) != 1 || req.Diff[0].Op != diff.Add || len(req.Diff[0].Path) > 0 {
					return kopf.Permanent(errors.New("KW-09 DIFF-05: want no old object, and a diff with one add operation for the whole object"))
				}
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), 100*millisecond)
				}
				req.Object.Labels = map[string]string{"made": "yes"}
				req.SetResult("well")
				return nil
			}).
			OnUpdate("updated", ok[W](seen, "updated")).
			OnDelete("deleted", failsUntil[W](seen, "deleted", 1, kopf.Temporary(errors.New("not yet"), 100*millisecond)))), patches.setup())
		main, status := places(ns, "widgets")

		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(patches.paths()).To(Equal([]string{main, main, status, main}),
			"PATCH-03 PATCH-04 PATCH-25 decision 0001: the status must be written before the records are removed")
		withFinalizer, withRecord, result, made := patches.all()[0], patches.all()[1], patches.all()[2], patches.all()[3]

		Expect(withFinalizer.part("metadata")).To(And(HaveLen(3), HaveKeyWithValue("finalizers", []any{finalizer})),
			"FIN-01 FIN-03 FIN-10 MIG-12 PIPE-10: the finalizer must be written alone, before handlers are called")
		Expect(withFinalizer.part("metadata", "resourceVersion")).To(Equal(obj.ResourceVersion), "FIN-10: the patch must require the observed version")
		Expect(withRecord.part("metadata", "annotations")).To(And(HaveKey(progress.DefaultPrefix+"/made"), Not(HaveKey(baselineKey))),
			"PIPE-13 ESS-16: an unfinished cycle must write the record without the baseline")
		Expect(withRecord.part("metadata", "resourceVersion")).To(BeNil(), "PATCH-07: a patch of our own keys must not contain the version")
		Expect(result.part("status")).To(Equal(map[string]any{"made": "well"}), "PATCH-04: the status patch must contain the result")
		Expect(made.part("metadata", "annotations")).To(And(
			HaveKeyWithValue(progress.DefaultPrefix+"/made", BeNil()), HaveKeyWithValue(baselineKey, ContainSubstring(`"made":"yes"`))),
			"PIPE-13 ESS-16: the last write must remove the record and store the baseline")
		Expect(made.part("metadata", "labels")).To(Equal(map[string]any{"made": "yes"}))
		Expect(made.part("metadata", "resourceVersion")).To(BeNil(), "PATCH-07: a patch without lists must not contain the version")
		Expect(made.part("status")).To(BeNil(), "PATCH-04: the other patch must not contain the status")

		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.count).WithArguments("updated:update").Should(Equal(1))
		handled(ctx, obj)
		Eventually(patches.paths).Should(HaveLen(5))
		Consistently(patches.paths).Should(HaveExactElements(main, main, status, main, main),
			"PATCH-05 RES-03: without a result, the status must not be written")

		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"made#0", "made#1", "updated:update", "deleted:delete#0", "deleted:delete#1"}))
		Expect(patches.all()).To(HaveLen(7))
		waits, gone := patches.all()[5], patches.all()[6]
		Expect(waits.part("metadata")).NotTo(HaveKey("finalizers"), "PIPE-14: the finalizer must remain until all handlers have finished")
		Expect(gone.part("metadata", "finalizers")).To(BeEmpty(), "PIPE-14 FIN-10: the last patch must remove the finalizer")
		Expect(gone.part("metadata", "resourceVersion")).NotTo(BeNil(), "FIN-10: the last patch must contain the version")
		Expect(gone.part("metadata", "annotations")).NotTo(HaveKey(baselineKey), "ESS-19 decision 0006: the last patch must not contain the baseline")
		expectCommonFields(patches, obj)
	}, SpecTimeout(minute))

	It("go to one endpoint for a kind without the status subresource (PATCH-04)", func(ctx context.Context) {
		ns, patches := newNamespace(ctx), &patchRecorder{}
		start(ns, options(kopf.For(kopf.Unstructured(gadgetGVK)).OnCreate("made", func(_ context.Context, req *kopf.Request[U]) error {
			req.SetResult("well")
			return nil
		})), patches.setup())
		obj := untyped(gadgetGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		main, _ := places(ns, "gadgets")
		Expect(patches.paths()).To(Equal([]string{main}))
		Expect(patches.all()[0].part("status")).To(Equal(map[string]any{"made": "well"}))
		expectCommonFields(patches, obj)
	}, SpecTimeout(minute))

	It("contain the resourceVersion if they replace a list (PATCH-07, decision 0005)", func(ctx context.Context) {
		ns, patches := newNamespace(ctx), &patchRecorder{}
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("made", func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Spec.Tags = append(req.Object.Spec.Tags, "tag")
			return nil
		})), patches.setup())
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(patches.all()).To(HaveLen(1))
		Expect(patches.all()[0].part("metadata", "resourceVersion")).To(Equal(obj.ResourceVersion))
	}, SpecTimeout(minute))

	It("for an object that was deleted in between cause no error (PATCH-20)", func(ctx context.Context) {
		ns, seen, patches := newNamespace(ctx), &calls{}, &patchRecorder{}
		operator := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("made", func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("made")
			must(k8s.Delete(ctx, req.Object.DeepCopy()))
			req.SetResult("too late")
			return nil
		})), patches.setup())
		create(ctx, widget(ns, "one"))
		Eventually(patches.paths).ShouldNot(BeEmpty())
		Consistently(seen.all).Should(Equal([]string{"made"}))
		Expect(patches.paths()).To(HaveLen(1))
		Expect(operator.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("that have succeeded are not repeated if another patch fails (PATCH-21, decision 0002)", func(ctx context.Context) {
		ns, seen, patches := newNamespace(ctx), &calls{}, &patchRecorder{}
		var failures atomic.Int32
		operator := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("made", func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("made")
			req.SetResult("well")
			return nil
		})), withFaults(func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
			if err := patches.note(r); err != nil {
				return nil, err
			}
			if !strings.HasSuffix(r.URL.Path, "/status") && failures.Add(1) <= 2 {
				return unsent(r, "injected: connection refused")
			}
			return next.RoundTrip(r)
		}))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		main, status := places(ns, "widgets")
		Expect(patches.paths()).To(Equal([]string{status, main, main, main}))
		Consistently(seen.all).Should(Equal([]string{"made"}))
		Expect(operator.log.errors()).To(HaveLen(2), "the operator must log the errors")
	}, SpecTimeout(minute))

	It("that the server has not stored completely are logged (PATCH-30, RES-06)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		operator := start(ns, options(kopf.For(kopf.Unstructured(strictGVK)).OnCreate("made", func(_ context.Context, req *kopf.Request[U]) error {
			req.Object.SetLabels(map[string]string{"painted": "yes"})
			req.SetResult("well")
			return unstructured.SetNestedField(req.Object.Object, "dropped", "spec", "unknown")
		})))
		obj := untyped(strictGVK, ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		dropped := func() []string { return operator.log.find("has dropped a field", "spec.unknown") }
		Eventually(dropped).Should(HaveLen(1), "the operator must log the dropped field")
		Eventually(func() []string { return operator.log.find("has dropped a field", "status.made") }).Should(HaveLen(1), "RES-06: the operator must log the dropped result")
		Expect(operator.log.find("has dropped a field", "painted")).To(BeEmpty(), "the server stores the label")
		Expect(operator.log.find("unknown field", "status.made")).NotTo(BeEmpty(), "RES-06: the warning of the server must be logged")
	}, SpecTimeout(minute))
})
