package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A faultTransport calls its function for each write instead of sending the write.
type faultTransport struct {
	next  http.RoundTripper
	write func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error)
	n     atomic.Int64
}

func (f *faultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		return f.write(r, f.n.Add(1), f.next)
	}
	return f.next.RoundTrip(r)
}

func withFaults(write func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error)) setup {
	return through(func(next http.RoundTripper) http.RoundTripper { return &faultTransport{next: next, write: write} })
}

// unsent fails a request without sending it.
func unsent(r *http.Request, reason string) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return nil, errors.New(reason)
}

var _ = Describe("Faults of the API", func() {
	type W = *v1.Widget

	widgets := func(seen *calls) *kopf.Resource[W] {
		return kopf.For(&v1.Widget{}).
			OnCreate("first", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("first")
				req.Object.Spec.Tags = append(req.Object.Spec.Tags, "tag")
				req.Object.Status.Phase = "Made"
				return nil
			}).
			OnCreate("second", ok[W](seen, "second")).
			OnDelete("deleted", ok[W](seen, "deleted"))
	}

	// expectHandled checks that the operator calls each handler once and writes all outcomes.
	expectHandled := func(ctx context.Context, obj W, seen *calls) {
		GinkgoHelper()
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(And(
			HaveField("Spec.Tags", Equal([]string{"tag"})), HaveField("Status.Phase", "Made")))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Consistently(seen.all).Should(Equal([]string{"first", "second:create", "deleted:delete"}))
	}

	It("do not repeat a handler whose outcome could not be written (B-05, NET-01, SE-48)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		operator := start(ns, options(widgets(seen)), withFaults(
			func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error) {
				if n%4 != 0 { // three of four writes fail, at varying points of the cycle
					return unsent(r, "injected: connection refused")
				}
				return next.RoundTrip(r)
			}))
		obj := widget(ns, "one")
		create(ctx, obj)
		expectHandled(ctx, obj, seen)
		Expect(operator.log.errors()).NotTo(BeEmpty(), "the operator must log the errors")
	}, SpecTimeout(minute))

	It("do not repeat a write whose response was lost (B-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(widgets(seen)), withFaults(
			func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if n%2 == 1 && err == nil {
					_ = response.Body.Close()
					return nil, io.ErrUnexpectedEOF
				}
				return response, err
			}))
		obj := widget(ns, "one")
		create(ctx, obj)
		expectHandled(ctx, obj, seen)
	}, SpecTimeout(minute))

	It("do not stop other objects", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(
			kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).OnCreate("made", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s", req.Object.Name)
				return nil
			})), withFaults(
			func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/broken") {
					return unsent(r, "injected: the write fails")
				}
				return next.RoundTrip(r)
			}))
		broken := widget(ns, "broken")
		create(ctx, broken)
		Eventually(seen.all).Should(Equal([]string{"broken"}))
		for _, name := range []string{"a", "b", "c"} {
			obj := widget(ns, name)
			create(ctx, obj)
			handled(ctx, obj)
		}
		Expect(seen.count("broken")).To(Equal(1))
		Expect(fresh(ctx, broken)()).To(HaveField("Annotations", BeEmpty()))
	}, SpecTimeout(minute))

	It("do not affect the next object of the same name (B-06)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		var replaced atomic.Bool
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("made", func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("%s", req.Object.Spec.Color)
			req.Object.Spec.Size = 500
			if replaced.CompareAndSwap(false, true) { // the handler replaces the first object
				must(k8s.Delete(ctx, req.Object.DeepCopy()))
				next := widget(ns, "one")
				next.Spec.Color = "blue"
				next.Spec.Size = 7
				must(k8s.Create(ctx, next))
				return kopf.Permanent(errors.New("too late"))
			}
			req.Object.Spec.Size = req.Object.Spec.Size + 1
			return nil
		})))
		create(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"red", "blue"}))
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Size", 501), "only the call for the second object may change the second object")
		Consistently(seen.all).Should(HaveLen(2))
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, obj))).To(Succeed())
	}, SpecTimeout(minute))
})
