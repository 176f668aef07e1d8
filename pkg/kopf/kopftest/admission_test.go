package kopftest_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

type admissionRequest = webhooks.Request[*corev1.ConfigMap]

func TestAdmit_ReturnsTheOutcome(t *testing.T) {
	g := NewWithT(t)
	judge := func(_ context.Context, req *admissionRequest) error {
		req.Warn("careful")
		if req.Operation == admissionv1.Update && !req.Diff().Reduce("data", "color").Empty() && req.User.Username != "admin" {
			return webhooks.Deny(0, "", "the color is immutable")
		}
		req.Object.Data["judged"] = string(req.Operation)
		return nil
	}
	red, blue := configMap(map[string]string{"color": "red"}), configMap(map[string]string{"color": "blue"})

	created := kopftest.Admit(t, judge, red, nil)
	g.Expect(created.Err).NotTo(HaveOccurred())
	g.Expect(created.Object.Data).To(HaveKeyWithValue("judged", "CREATE"))
	g.Expect(created.Changes).To(HaveLen(1))
	g.Expect(created.Warnings).To(Equal([]string{"careful"}))
	g.Expect(red.Data).NotTo(HaveKey("judged"), "want no change of the input object")

	denied := kopftest.Admit(t, judge, blue, red)
	g.Expect(denied.Err).To(MatchError(ContainSubstring("the color is immutable")))
	g.Expect(apierrors.IsForbidden(denied.Err)).To(BeTrue())
	allowed := kopftest.Admit(t, judge, blue, red, func(call *webhooks.Call) { call.User.Username = "admin" })
	g.Expect(allowed.Err).NotTo(HaveOccurred())
}

// The parts of the request are consistent, and memos are available as in an operator (decision 0019).
func TestAdmit_RequestIsConsistent(t *testing.T) {
	g := NewWithT(t)
	ctx := kopftest.Context(t)
	count.Store(ctx, 3)
	var seen *webhooks.Call
	remember := func(ctx context.Context, req *admissionRequest) error {
		n, _ := count.Load(ctx)
		count.Store(ctx, n+1)
		seen = req.Call
		return nil
	}
	g.Expect(kopftest.Admit(t, remember, configMap(nil), nil).Err).NotTo(HaveOccurred())
	red := configMap(map[string]string{"color": "red"})
	kopftest.AdmitContext(ctx, t, remember, red, nil, func(call *webhooks.Call) {
		call.Operation, call.DryRun, call.Subresource, call.User.Username = admissionv1.Delete, true, "status", "admin"
	})
	n, _ := count.Load(ctx)
	g.Expect(n).To(Equal(4))
	g.Expect(seen.Review.Operation).To(Equal(admissionv1.Delete))
	g.Expect(seen.Review.DryRun).To(HaveValue(BeTrue()))
	g.Expect(seen.Review.SubResource).To(Equal("status"))
	g.Expect(seen.Review.UserInfo.Username).To(Equal("admin"))
	g.Expect(seen.Review.Object.Raw).To(BeEmpty(), "want no new object in a delete request")
	g.Expect(seen.Review.OldObject.Raw).To(ContainSubstring("red"))
	g.Expect(seen.Diff().Reduce("data", "color")).To(ConsistOf(HaveField("Op", diff.Remove)))
}

// CheckMutation reports handlers that change or deny their own result.
func TestCheckMutation_FindsNonIdempotentHandlers(t *testing.T) {
	mutate := func(change func(map[string]string)) webhooks.Handler[*corev1.ConfigMap] {
		return func(_ context.Context, req *admissionRequest) error {
			change(req.Object.Data)
			return nil
		}
	}
	obj := configMap(map[string]string{"color": "red"})
	for name, test := range map[string]struct {
		handler webhooks.Handler[*corev1.ConfigMap]
		says    string
	}{
		"a default": {mutate(func(data map[string]string) { data["size"] = "1" }), ""},
		"a counter": {mutate(func(data map[string]string) { data["n"] += "1" }), "the mutation is not idempotent"},
		"a denial of the handler's own result": {func(_ context.Context, req *admissionRequest) error {
			if req.Object.Data["size"] != "" {
				return webhooks.Deny(0, "", "no")
			}
			req.Object.Data["size"] = "1"
			return nil
		}, "the handler denies its own result"},
		"a denial": {func(context.Context, *admissionRequest) error { return webhooks.Deny(0, "", "no") }, "the handler denies the object"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			said := failureOf(t, func(tb testing.TB) { kopftest.CheckMutation(tb, test.handler, obj) })
			if test.says == "" {
				g.Expect(said).To(BeEmpty())
			} else {
				g.Expect(said).To(ContainSubstring(test.says))
			}
		})
	}
}
