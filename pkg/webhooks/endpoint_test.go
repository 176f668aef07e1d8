package webhooks_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// ADM-09, ADM-10, ADM-11: the server converts errors of handlers to response statuses.
func TestHandler_Errors(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "the-admins-secret")
	sized := field.Invalid(field.NewPath("spec", "size"), 1, "is odd")
	deny := webhooks.Deny(http.StatusConflict, metav1.StatusReasonConflict, "no")
	fault := `the handler "v" failed: see requestID U in the log of its operator`
	for name, c := range map[string]struct {
		err     error
		code    int32
		reason  metav1.StatusReason
		message string
		causes  int
	}{
		"a denial":                              {deny, 409, "Conflict", "no", 0},
		"a wrapped denial":                      {fmt.Errorf("here: %w", deny), 409, "Conflict", "no", 0},
		"no code":                               {webhooks.Deny(0, "", "no"), 403, "Forbidden", "no", 0},
		"a success code":                        {webhooks.Deny(200, "", "no"), 403, "Forbidden", "no", 0},
		"no message":                            {webhooks.Deny(422, "Odd", ""), 422, "Odd", "", 0},
		"a field":                               {sized, 422, "Invalid", `Widget.e2e.example.com "a" is invalid: spec.size: Invalid value: 1: is odd`, 1},
		"fields":                                {field.ErrorList{sized, field.Required(field.NewPath("spec"), "")}.ToAggregate(), 422, "Invalid", "Required", 2},
		"joined fields":                         {errors.Join(sized, fmt.Errorf("and: %w", field.Required(field.NewPath("spec"), ""))), 422, "Invalid", "Required", 2},
		"an invalid object":                     {apierrors.NewInvalid(widgetGVK.GroupKind(), "a", field.ErrorList{sized}), 422, "Invalid", "is odd", 1},
		"another invalid object":                {apierrors.NewInvalid(widgetGVK.GroupKind(), "b", field.ErrorList{sized}), 500, "InternalError", fault, 0},
		"an invalid object of another kind":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Widget"}, "a", field.ErrorList{sized}), 500, "InternalError", fault, 0},
		"invalid without details":               {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422, Message: "secret"}}, 500, "InternalError", fault, 0},
		"a denial takes precedence over fields": {errors.Join(errTest, sized, deny), 409, "Conflict", "no", 0},
		"fields take precedence over other errors": {errors.Join(errTest, sized), 422, "Invalid", "is odd", 1},
		"an unexpected error":                      {errTest, 500, "InternalError", fault, 0},
		"an error of a client":                     {notFound, 500, "InternalError", fault, 0},
		"an expired deadline":                      {context.DeadlineExceeded, 500, "InternalError", fault, 0},
	} {
		b := serve(t, validate(func(_ context.Context, req *widgetRequest) error {
			req.Warn("mind", "this") // ADM-12: denials also have warnings
			return c.err
		}))
		code, got := b.post("/v", review())
		g := NewWithT(t)
		g.Expect(code).To(Equal(http.StatusOK), name)
		g.Expect(got.Response.Allowed).To(BeFalse(), name)
		g.Expect(got.Response.Warnings).To(Equal([]string{"mind", "this"}), name)
		status := got.Response.Result
		g.Expect(status.Code).To(Equal(c.code), name)
		g.Expect(status.Reason).To(Equal(c.reason), name)
		g.Expect(status.Status).To(Equal(metav1.StatusFailure), name)
		g.Expect(status.Message).To(ContainSubstring(c.message), name)
		if c.causes > 0 {
			g.Expect(status.Details.Causes).To(HaveLen(c.causes), name)
		}
		if c.code == http.StatusInternalServerError {
			g.Expect(status.Message).To(Equal(fault), name)
			g.Expect(b.log.String()).To(ContainSubstring(strings.Trim(strconv.Quote(c.err.Error()), `"`)), name)
		}
	}
	NewWithT(t).Expect(apierrors.IsConflict(deny)).To(BeTrue(), "want a conflict error")
	NewWithT(t).Expect(webhooks.Deny(0, "", "")).To(MatchError("denied without a message"))
}

// A panic denies the request and is only logged. It does not affect other requests.
func TestHandler_Panics(t *testing.T) {
	g := NewWithT(t)
	panics := true
	b := serve(t, validate(func(_ context.Context, req *widgetRequest) error {
		if panics {
			req.Warn("soon")
			panic("secret")
		}
		return nil
	}))
	_, got := b.post("/v", review())
	g.Expect(got.Response.Allowed).To(BeFalse())
	g.Expect(got.Response.UID).To(BeEquivalentTo("U"))
	g.Expect(got.Response.Warnings).To(Equal([]string{"soon"}))
	g.Expect(got.Response.Result.Code).To(BeEquivalentTo(500))
	g.Expect(got.Response.Result.Message).NotTo(ContainSubstring("secret"))
	g.Expect(b.log.String()).To(And(ContainSubstring("secret"), ContainSubstring("TestHandler_Panics")), "want the panic and its stack in the log")
	panics = false
	_, got = b.post("/v", review())
	g.Expect(got.Response.Allowed).To(BeTrue())
}

func TestHandler_ContextDeadline(t *testing.T) {
	var remaining time.Duration
	b := serve(t, validate(func(ctx context.Context, _ *widgetRequest) error {
		deadline, _ := ctx.Deadline()
		remaining = time.Until(deadline)
		return nil
	}, webhooks.TimeoutSeconds(3)))
	b.post("/v", review())
	NewWithT(t).Expect(remaining).To(And(BeNumerically(">", time.Second), BeNumerically("<=", 3*time.Second)))
}

// ADM-12, ADM-13 and appendix B: a response with a warning and one added field has kopf's format.
func TestResponse_Golden(t *testing.T) {
	g := NewWithT(t)
	b := serve(t, webhooks.Mutating(loose(), "m", func(_ context.Context, req *looseRequest) error {
		req.Warn("w1")
		unstructuredSet(req.Object, int64(1), "spec", "g")
		return nil
	}))
	_, got := b.post("/m", review())
	text, err := json.Marshal(got.Response)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(MatchJSON(`{"uid":"U","allowed":true,"status":{"metadata":{},"code":200},"warnings":["w1"],"patchType":"JSONPatch",
		"patch":"` + base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/spec/g","value":1}]`)) + `"}`))
	_, got = serve(t, mutate(accept)).post("/m", review())
	g.Expect(got.Response.Patch).To(BeEmpty())
	g.Expect(got.Response.PatchType).To(BeNil())
	g.Expect(got.Response.Warnings).To(BeEmpty())
}

// ADM-13: a denial has no patch, because the API server would ignore it.
func TestResponse_DenialHasNoPatch(t *testing.T) {
	_, got := serve(t, mutate(func(_ context.Context, req *widgetRequest) error {
		req.Object.Spec.Color = "blue"
		return webhooks.Deny(0, "", "no")
	})).post("/m", review())
	NewWithT(t).Expect(got.Response.Allowed).To(BeFalse())
	NewWithT(t).Expect(got.Response.Patch).To(BeEmpty())
}

// ADM-15, SE-32: the server discards changes of a validating handler and returns a warning.
func TestValidating_ChangesAreDiscarded(t *testing.T) {
	g := NewWithT(t)
	b := serve(t, validate(func(_ context.Context, req *widgetRequest) error {
		req.Object.Spec.Color = "blue"
		return nil
	}))
	_, got := b.post("/v", review())
	g.Expect(got.Response.Allowed).To(BeTrue())
	g.Expect(got.Response.Patch).To(BeEmpty())
	g.Expect(got.Response.Warnings).To(ConsistOf(ContainSubstring("validating handlers cannot")))
	g.Expect(b.log.String()).To(ContainSubstring("Discarding the changes"))
}

// Replacing the object counts as a change. Setting it to nil is an error.
func TestMutating_ReplacedObject(t *testing.T) {
	g := NewWithT(t)
	_, got := serve(t, mutate(func(_ context.Context, req *widgetRequest) error {
		req.Object = req.Object.DeepCopy()
		req.Object.Spec.Color = "blue"
		return nil
	})).post("/m", review())
	g.Expect(string(got.Response.Patch)).To(Equal(`[{"op":"replace","path":"/spec/color","value":"blue"}]`))
	_, got = serve(t, mutate(func(_ context.Context, req *widgetRequest) error {
		req.Object = nil
		return nil
	})).post("/m", review())
	g.Expect(got.Response.Result.Code).To(BeEquivalentTo(500))
}
