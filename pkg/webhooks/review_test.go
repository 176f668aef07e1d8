package webhooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// bench serves hooks without an API server.
type bench struct {
	t       testing.TB
	handler http.Handler
	log     *logBuffer
}

func serve(t testing.TB, hooks ...webhooks.Hook) *bench {
	t.Helper()
	b := &bench{t: t, log: &logBuffer{}}
	var err error
	b.handler, err = webhooks.Serve(scheme, webhooks.Options{}, b.log.logger(), hooks...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// post sends a body and returns the HTTP status and the response.
func (b *bench) post(path, body string) (int, admissionv1.AdmissionReview) {
	b.t.Helper()
	return b.send(httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
}

func (b *bench) send(r *http.Request) (int, admissionv1.AdmissionReview) {
	b.t.Helper()
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	if w.Code != http.StatusNotFound || strings.HasPrefix(w.Body.String(), "{") {
		if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
			b.t.Fatalf("response is not a review: %s (%v)", w.Body, err)
		}
	}
	return w.Code, review
}

const red = `{"apiVersion":"e2e.example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"ns"},"spec":{"size":1,"color":"red","extra":{"deep":[1,2]}}}`

// review returns the JSON of a review, changed by edit.
func review(edit ...func(map[string]any)) string {
	request := map[string]any{
		"uid":       "U",
		"kind":      map[string]any{"group": "e2e.example.com", "version": "v1", "kind": "Widget"},
		"resource":  map[string]any{"group": "e2e.example.com", "version": "v1", "resource": "widgets"},
		"operation": "CREATE",
		"name":      "a", "namespace": "ns",
		"userInfo": map[string]any{"username": "jane", "groups": []any{"admins"}},
		"object":   json.RawMessage(red),
	}
	for _, e := range edit {
		e(request)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	must(err)
	return string(text)
}

func with(key string, value any) func(map[string]any) {
	return func(r map[string]any) {
		if value == nil {
			delete(r, key)
		} else {
			r[key] = value
		}
	}
}

func update(old string) func(map[string]any) {
	return func(r map[string]any) { r["operation"], r["oldObject"] = "UPDATE", json.RawMessage(old) }
}

func deletion(r map[string]any) {
	r["operation"], r["oldObject"] = "DELETE", r["object"]
	delete(r, "object")
}

func validate(fn func(context.Context, *widgetRequest) error, opts ...webhooks.Option) webhooks.Hook {
	return webhooks.Validating(&v1.Widget{}, "v", fn, opts...)
}

func mutate(fn func(context.Context, *widgetRequest) error, opts ...webhooks.Option) webhooks.Hook {
	return webhooks.Mutating(&v1.Widget{}, "m", fn, opts...)
}

func accept(context.Context, *widgetRequest) error { return nil }

// ADM-01: the server supports both versions of reviews. The response has the version and the UID of the review.
func TestReview_Versions(t *testing.T) {
	b := serve(t, validate(accept))
	for _, version := range []string{"admission.k8s.io/v1", "admission.k8s.io/v1beta1"} {
		code, got := b.post("/v", strings.Replace(review(), "admission.k8s.io/v1", version, 1))
		g := NewWithT(t)
		g.Expect(code).To(Equal(http.StatusOK))
		g.Expect(got.TypeMeta).To(Equal(metav1.TypeMeta{APIVersion: version, Kind: "AdmissionReview"}))
		g.Expect(got.Response.UID).To(BeEquivalentTo("U"))
		g.Expect(got.Response.Allowed).To(BeTrue())
	}
	_, got := b.post("/v", strings.Replace(review(), `"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",`, "", 1))
	NewWithT(t).Expect(got.APIVersion).To(Equal("admission.k8s.io/v1"))
}

// ADM-02, ADM-03, ADM-44, ADM-45, SE-31: the server responds with an HTTP error to unknown paths, other kinds and
// incomplete reviews. It calls no handler.
func TestReview_Misdirected(t *testing.T) {
	b := serve(t, validate(func(context.Context, *widgetRequest) error { panic("unexpected call") }))
	for name, c := range map[string]struct {
		path, body string
		code       int
		message    string
	}{
		"the root path":                   {"/", review(), 404, ""},
		"an unknown path":                 {"/w", review(), 404, ""},
		"a path below the handler's path": {"/v/x", review(), 404, ""},
		"a path with a trailing slash":    {"/v/", review(), 404, ""},
		"another kind":                    {"/v", review(with("kind", map[string]any{"group": "apps", "version": "v1", "kind": "Deployment"})), 404, "unknown resource"},
		"another version":                 {"/v", review(with("kind", map[string]any{"group": "e2e.example.com", "version": "v2", "kind": "Widget"})), 404, "unknown resource"},
		"a kind of a subresource":         {"/v", review(with("subResource", "scale"), with("kind", map[string]any{"group": "autoscaling", "version": "v1", "kind": "Scale"})), 404, "unknown resource"},
		"no user":                         {"/v", review(with("userInfo", nil)), 400, "missing data: the review has no userInfo"},
		"no objects":                      {"/v", review(with("object", nil)), 400, "missing data: the review has no object and oldObject"},
		"a null object":                   {"/v", review(with("object", json.RawMessage("null"))), 400, "missing data"},
		"no uid":                          {"/v", review(with("uid", nil)), 400, "missing data: the review has no uid"},
		"no request":                      {"/v", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "missing data"},
		"invalid JSON":                    {"/v", "{", 400, ""},
		"an empty body":                   {"/v", "", 400, "missing data"},
		"a list":                          {"/v", "[]", 400, ""},
		"another document":                {"/v", `{"apiVersion":"v1","kind":"Pod"}`, 400, ""},
	} {
		code, got := b.post(c.path, c.body)
		g := NewWithT(t)
		g.Expect(code).To(Equal(c.code), name)
		if c.message != "" {
			g.Expect(got.Response.Result.Message).To(ContainSubstring(c.message), name)
			g.Expect(got.Response.Allowed).To(BeFalse(), name)
		}
	}
}

// ADM-45: the server rejects wrong content types, and bodies that are too large or endless.
func TestReview_BadRequest(t *testing.T) {
	g := NewWithT(t)
	b := serve(t, validate(accept))
	r := httptest.NewRequest(http.MethodPost, "/v", strings.NewReader(review()))
	r.Header.Set("Content-Type", "text/plain")
	code, _ := b.send(r)
	g.Expect(code).To(Equal(http.StatusBadRequest))

	endless := &counter{}
	code, _ = b.send(httptest.NewRequest(http.MethodPost, "/v", io.MultiReader(strings.NewReader(`{"x":"`), endless)))
	g.Expect(code).To(Equal(http.StatusRequestEntityTooLarge))
	g.Expect(endless.read).To(BeNumerically("<", 16<<20), "want a limited number of bytes read")

	code, _ = b.send(httptest.NewRequest(http.MethodGet, "/v", nil))
	g.Expect(code).To(Equal(http.StatusBadRequest))

	code, _ = b.send(httptest.NewRequest(http.MethodPost, "/v", &broken{}))
	g.Expect(code).To(Equal(http.StatusBadRequest))
}

type counter struct{ read int }

func (c *counter) Read(p []byte) (int, error) {
	c.read += len(p)
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, errTest }

// The server stops reading the request of a slow client and continues to serve others. It rejects requests without TLS.
func TestReview_SlowClient(t *testing.T) {
	handler, err := webhooks.ServeWithReadTimeout(50*time.Millisecond, scheme, webhooks.Options{}, logr.Discard(), validate(accept))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	begun := `{"a":"` + strings.Repeat("x", 1<<16) // more than the buffer of a client
	for _, http2 := range []bool{false, true} {
		g := NewWithT(t)
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = http2
		server.StartTLS()
		never, release := io.Pipe()
		response, err := server.Client().Post(server.URL+"/v", "application/json", io.MultiReader(strings.NewReader(begun), never))
		_ = release.Close() // the client waits for the end of the body
		if err == nil {
			g.Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
			_ = response.Body.Close()
		}
		response, err = server.Client().Post(server.URL+"/v", "application/json", strings.NewReader(review()))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
		_ = response.Body.Close()
		response, err = http.Post("http"+strings.TrimPrefix(server.URL, "https")+"/v", "application/json", strings.NewReader(review()))
		if err == nil {
			g.Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
			_ = response.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
		server.Client().CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	}
}

// If an object cannot be decoded into the Go type, the server denies the request with the reason, independent of the
// failure policy.
func TestReview_UndecodableObject(t *testing.T) {
	b := serve(t, validate(accept))
	text := strings.Replace(red, `"size":1`, `"size":"big"`, 1)
	const (
		invalid = "the object is not a valid Widget: "
		stored  = "the stored object is not a valid Widget: spec.size: json: cannot unmarshal string into Go struct field WidgetSpec.spec.size of type int: " +
			`to repair or delete it, remove the entry of the handler "v" from the webhook configuration for this time`
	)
	for name, test := range map[string]struct {
		edit []func(map[string]any)
		want string
	}{
		"an undecodable object":         {[]func(map[string]any){with("object", json.RawMessage(text))}, invalid + "spec.size: json: cannot unmarshal string into"},
		"an undecodable old object":     {[]func(map[string]any){update(text)}, stored},
		"an undecodable deleted object": {[]func(map[string]any){with("object", json.RawMessage(text)), deletion}, stored},
		"an object that is not a map":   {[]func(map[string]any){with("object", json.RawMessage(`[1]`))}, invalid},
	} {
		code, got := b.post("/v", review(test.edit...))
		g := NewWithT(t)
		g.Expect(code).To(Equal(http.StatusOK), name)
		g.Expect(got.Response.Allowed).To(BeFalse(), name)
		g.Expect(got.Response.Result.Code).To(BeEquivalentTo(400), name)
		g.Expect(got.Response.Result.Message).To(ContainSubstring(test.want), name)
	}
	code, got := b.post("/v", review(with("object", json.RawMessage(`{}`))))
	NewWithT(t).Expect(code).To(Equal(http.StatusOK))
	NewWithT(t).Expect(got.Response.Result.Message).NotTo(ContainSubstring("panic"))
}

// ADM-04: Object is the new object, or the old object for a deletion. Diff compares the whole objects.
func TestRequest_Content(t *testing.T) {
	g := NewWithT(t)
	var got *widgetRequest
	var text string
	b := serve(t, validate(func(_ context.Context, req *widgetRequest) error {
		got, text = req, req.Diff().String()
		return nil
	}))
	blue := strings.Replace(red, "red", "blue", 1)

	b.post("/v", review())
	g.Expect(got.Old).To(BeNil())
	g.Expect(got.Object.Spec.Color).To(Equal("red"))
	g.Expect(text).To(ContainSubstring("deep"))
	g.Expect(got.User.Username).To(Equal("jane"))
	g.Expect(got.Operation).To(Equal(admissionv1.Create))
	g.Expect(got.DryRun).To(BeFalse(), "ADM-17")

	b.post("/v", review(with("object", json.RawMessage(blue)), update(red), with("dryRun", true)))
	g.Expect(got.Old.Spec.Color).To(Equal("red"))
	g.Expect(got.Object.Spec.Color).To(Equal("blue"))
	g.Expect(got.Diff()).To(HaveLen(1))
	g.Expect(got.Diff()[0].Path).To(HaveExactElements("spec", "color"))
	g.Expect(got.DryRun).To(BeTrue(), "ADM-17")

	b.post("/v", review(deletion))
	g.Expect(got.Object.Spec.Color).To(Equal("red"))
	g.Expect(got.Old).To(Equal(got.Object))
	g.Expect(got.Diff()[0].New).To(BeNil())
}

// ADM-17, ADM-50: the headers are those of the API server's request. Without TLS, TLS is nil.
func TestRequest_Headers(t *testing.T) {
	g := NewWithT(t)
	var got http.Header
	b := serve(t, validate(func(_ context.Context, req *widgetRequest) error {
		got = req.Header
		g.Expect(req.TLS).To(BeNil())
		return nil
	}))
	r := httptest.NewRequest(http.MethodPost, "/v", strings.NewReader(review()))
	r.Header.Set("X-Tunnel", "yes")
	b.send(r)
	g.Expect(got.Get("X-Tunnel")).To(Equal("yes"))
	g.Expect((&webhooks.Call{}).Diff()).To(BeEmpty(), "want an empty diff for a Call created in a test")
}

// ADM-06: mutating handlers are not called for deletions by default.
func TestMutating_Deletion(t *testing.T) {
	g := NewWithT(t)
	calls := 0
	count := func(_ context.Context, req *widgetRequest) error {
		calls++
		req.Object.Spec.Color = "blue"
		return nil
	}
	_, got := serve(t, mutate(count)).post("/m", review(deletion))
	g.Expect(got.Response.Allowed).To(BeTrue())
	g.Expect(calls).To(BeZero())
	_, got = serve(t, mutate(count, webhooks.Operations("DELETE"))).post("/m", review(deletion))
	g.Expect(calls).To(Equal(1))
	g.Expect(got.Response.Patch).To(BeEmpty(), "want no patch, because the API server rejects patches for deletions")
	g.Expect(got.Response.Warnings).To(ConsistOf(ContainSubstring("the object is being deleted")))
}

// ADM-07: a handler matches the object itself, one subresource or all subresources.
func TestHook_Subresources(t *testing.T) {
	for declared, wants := range map[string]map[string]bool{
		"":       {"": true, "status": false},
		"status": {"": false, "status": true, "scale": false},
		"*":      {"": true, "status": true, "scale": true},
	} {
		for subresource, want := range wants {
			called := false
			var opts []webhooks.Option
			if declared != "" {
				opts = append(opts, webhooks.Subresource(declared))
			}
			b := serve(t, validate(func(_ context.Context, req *widgetRequest) error {
				called = req.Subresource == subresource
				return nil
			}, opts...))
			_, got := b.post("/v", review(with("subResource", subresource)))
			NewWithT(t).Expect(got.Response.Allowed).To(BeTrue())
			NewWithT(t).Expect(called).To(Equal(want), "handler for %q, request for %q", declared, subresource)
		}
	}
}

// ADM-08: the API server matches the operations. The endpoint does not match them again.
func TestHook_OperationsAreNotRechecked(t *testing.T) {
	called := false
	b := serve(t, validate(func(context.Context, *widgetRequest) error {
		called = true
		return nil
	}, webhooks.Operations("UPDATE")))
	b.post("/v", review())
	NewWithT(t).Expect(called).To(BeTrue())
}

// ADM-05: the labels of the new object must match, even if the API server calls because of the old object's labels.
func TestHook_Labels(t *testing.T) {
	calls := 0
	b := serve(t, validate(func(context.Context, *widgetRequest) error {
		calls++
		return nil
	}, webhooks.Label("tier", "gold"), webhooks.NoLabel("old")))
	labelled := func(labels string) string {
		return strings.Replace(red, `"name":"a"`, `"name":"a","labels":`+labels, 1)
	}
	for labels, want := range map[string]int{
		`{"tier":"gold"}`: 1, `{"tier":"lead"}`: 0, `{}`: 0, `{"tier":"gold","old":""}`: 0,
	} {
		calls = 0
		_, got := b.post("/v", review(with("object", json.RawMessage(labelled(labels))), update(labelled(`{"tier":"gold"}`))))
		NewWithT(t).Expect(calls).To(Equal(want), labels)
		NewWithT(t).Expect(got.Response.Allowed).To(BeTrue(), labels)
	}
}

// Metadata-only and untyped objects keep the fields that handlers do not receive.
func TestHook_UntypedKinds(t *testing.T) {
	g := NewWithT(t)
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(widgetGVK)
	_, got := serve(t, webhooks.Mutating(meta, "m", func(_ context.Context, req *webhooks.Request[*metav1.PartialObjectMetadata]) error {
		req.Object.Labels = map[string]string{"a/b": "c"}
		return nil
	})).post("/m", review())
	g.Expect(string(got.Response.Patch)).To(Equal(`[{"op":"add","path":"/metadata/labels","value":{"a/b":"c"}}]`))

	pod := &corev1.Pod{}
	hook := webhooks.Validating(pod, "v", func(context.Context, *webhooks.Request[*corev1.Pod]) error { return nil })
	g.Expect(hook.ID()).To(Equal("v"))
	g.Expect(hook.Mutating()).To(BeFalse())
}
