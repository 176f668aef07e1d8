package webhooks_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// FuzzReview sends arbitrary bodies. Each response must be a review with a known status. Only allowed reviews may have
// a patch.
func FuzzReview(f *testing.F) {
	f.Add(review())
	f.Add(review(update(red)))
	f.Add(review(deletion))
	f.Add(review(with("userInfo", nil)))
	f.Add(review(with("object", json.RawMessage(`{"spec":{"size":1e400,"color":"\ud800"}}`))))
	f.Add(strings.Replace(review(), "/v1", "/v1beta1", 1))
	f.Add(`{"request":[]}`)
	change := func(_ context.Context, req *widgetRequest) error {
		req.Object.Spec.Size++
		req.Object.Spec.Tags = append([]string{"a/b~"}, req.Object.Spec.Tags...)
		req.Warn(req.Diff().String())
		return nil
	}
	handler, err := webhooks.Serve(scheme, webhooks.Options{}, logr.Discard(), validate(change), mutate(change), webhooks.Mutating(loose(), "u", func(_ context.Context, req *looseRequest) error {
		req.Object.SetLabels(map[string]string{"x": req.Object.GetName()})
		return nil
	}))
	must(err)
	known := []int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v", "/m", "/u"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Response == nil || !slices.Contains(known, w.Code) {
				t.Fatalf("status code %d, body %s, error %v, want a review with a known status", w.Code, w.Body, err)
			}
			if patch := got.Response.Patch; patch != nil && (!got.Response.Allowed || path == "/v" || !json.Valid(patch)) {
				t.Fatalf("path %s: response %s, want a valid patch only if a mutating handler allows the request", path, w.Body)
			}
			if w.Code != http.StatusOK && got.Response.Allowed {
				t.Fatalf("status code %d for an allowed review: %s", w.Code, w.Body)
			}
		}
	})
}
