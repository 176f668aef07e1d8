package webhooks_test

import (
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// opaque is a kind with fields of types that have unexported fields.
type opaque struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Address           netip.Addr `json:"address,omitzero"`
	Amount            *big.Int   `json:"amount,omitempty"`
	Text              fragile    `json:"text,omitempty"`
}

// fragile is a string whose JSON encoding panics for the value "broken".
type fragile string

func (f fragile) MarshalJSON() ([]byte, error) {
	if f == "broken" {
		panic("secret of " + string(f))
	}
	return json.Marshal(string(f))
}

func (o *opaque) DeepCopyObject() runtime.Object {
	out := *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if o.Amount != nil {
		out.Amount = new(big.Int).Set(o.Amount)
	}
	return &out
}

var opaqueGVK = schema.GroupVersionKind{Group: "e2e.example.com", Version: "v1", Kind: "Opaque"}

// reviewOpaque sends a review of an opaque object to a handler.
func reviewOpaque(t *testing.T, make func(*opaque, string, webhooks.Handler[*opaque], ...webhooks.Option) webhooks.Hook, change func(*opaque)) (string, *metav1.Status, []string, *logBuffer) {
	t.Helper()
	own, log := runtime.NewScheme(), &logBuffer{}
	own.AddKnownTypeWithName(opaqueGVK, &opaque{})
	handler, err := webhooks.Serve(own, webhooks.Options{}, log.logger(),
		make(&opaque{}, "h", func(_ context.Context, req *webhooks.Request[*opaque]) error {
			change(req.Object)
			return nil
		}))
	must(err)
	b := &bench{t: t, handler: handler, log: log}
	code, got := b.post("/h", review(
		with("kind", map[string]any{"group": opaqueGVK.Group, "version": opaqueGVK.Version, "kind": opaqueGVK.Kind}),
		with("object", json.RawMessage(`{"apiVersion":"e2e.example.com/v1","kind":"Opaque","metadata":{"name":"a"},"address":"10.0.0.1","amount":5,"text":"x"}`)),
	))
	NewWithT(t).Expect(code).To(Equal(http.StatusOK))
	return string(got.Response.Patch), got.Response.Result, got.Response.Warnings, log
}

// Changes of addresses, large numbers and similar values are detected.
func TestMutating_UnexportedFields(t *testing.T) {
	g := NewWithT(t)
	patch, result, _, _ := reviewOpaque(t, webhooks.Mutating, func(o *opaque) { o.Address = netip.MustParseAddr("10.0.0.2") })
	g.Expect(patch).To(Equal(`[{"op":"replace","path":"/address","value":"10.0.0.2"}]`), "%v", result)
	patch, result, _, _ = reviewOpaque(t, webhooks.Mutating, func(o *opaque) { o.Amount.SetInt64(6) })
	g.Expect(patch).To(Equal(`[{"op":"replace","path":"/amount","value":6}]`), "%v", result)
	patch, _, _, _ = reviewOpaque(t, webhooks.Mutating, func(*opaque) {})
	g.Expect(patch).To(BeEmpty())
	_, _, warnings, _ := reviewOpaque(t, webhooks.Validating, func(*opaque) {})
	g.Expect(warnings).To(BeEmpty())
	_, _, warnings, _ = reviewOpaque(t, webhooks.Validating, func(o *opaque) { o.Amount.SetInt64(6) })
	g.Expect(warnings).To(ConsistOf(ContainSubstring("are discarded")))
}

// A panic in a method of the object denies the request and is only logged.
func TestMutating_PanicInObjectMethod(t *testing.T) {
	g := NewWithT(t)
	_, result, _, log := reviewOpaque(t, webhooks.Mutating, func(o *opaque) { o.Text = "broken" })
	g.Expect(result.Code).To(BeEquivalentTo(http.StatusInternalServerError))
	g.Expect(result.Message).To(And(ContainSubstring(`"h" failed`), Not(ContainSubstring("secret"))))
	g.Expect(log.String()).To(ContainSubstring("secret of broken"))
}

func (f *fragile) UnmarshalJSON(data []byte) error {
	if string(data) == `"torn"` {
		panic("secret of " + string(data))
	}
	return json.Unmarshal(data, (*string)(f))
}

// A Go type that panics for an object denies it with the field, without the text of the panic.
func TestReview_PanicOfTheGoType(t *testing.T) {
	own, log := runtime.NewScheme(), &logBuffer{}
	own.AddKnownTypeWithName(opaqueGVK, &opaque{})
	handler, err := webhooks.Serve(own, webhooks.Options{}, log.logger(),
		webhooks.Validating(&opaque{}, "h", func(context.Context, *webhooks.Request[*opaque]) error { return nil }))
	must(err)
	b := &bench{t: t, handler: handler, log: log}
	code, got := b.post("/h", review(
		with("kind", map[string]any{"group": opaqueGVK.Group, "version": opaqueGVK.Version, "kind": opaqueGVK.Kind}),
		with("object", json.RawMessage(`{"apiVersion":"e2e.example.com/v1","kind":"Opaque","metadata":{"name":"a"},"text":"torn"}`)),
	))
	g := NewWithT(t)
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(got.Response.Allowed).To(BeFalse())
	g.Expect(got.Response.Result.Code).To(BeEquivalentTo(http.StatusBadRequest))
	g.Expect(got.Response.Result.Message).To(Equal("the object is not a valid Opaque: text: the Go type of the operator panics for this value"))
}
