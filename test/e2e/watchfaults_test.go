package e2e

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A lossyWatch is a transport that drops modifications from watches. It passes creations and deletions.
type lossyWatch struct{ next http.RoundTripper }

func (d *lossyWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return response, err
	}
	response.Body = &lossyBody{Closer: response.Body, lines: bufio.NewReader(response.Body)}
	return response, nil
}

// A lossyBody reads the lines of a watch, one JSON object each, and drops modifications.
type lossyBody struct {
	io.Closer
	lines *bufio.Reader
	rest  []byte
}

func (b *lossyBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if !bytes.Contains(line, []byte(`"type":"MODIFIED"`)) {
			b.rest = line
		}
		if err != nil && len(b.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

var _ = Describe("A watch that drops modifications", func() {
	type W = *v1.Widget

	It("still reports the deletion of an object, even if our own write was not observed (CONS-06, decision 0003)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		operator := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("made", ok[W](seen, "made")).
			OnDelete("deleted", ok[W](seen, "deleted"), kopf.Optional())),
			through(func(next http.RoundTripper) http.RoundTripper { return &lossyWatch{next} }))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		cached := &v1.Widget{}
		Expect(operator.GetCache().Get(ctx, client.ObjectKeyFromObject(obj), cached)).To(Succeed())
		Expect(cached.ResourceVersion).To(Equal(obj.ResourceVersion), "the cache must not contain our write")
		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"made:create", "deleted:delete"}))
		Expect(operator.log.find("cache does not show")).To(BeEmpty(), "the operator must not wait")
		Expect(operator.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("causes a consistency wait that times out and does not block a worker (CONS-04, PIPE-11)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		operator := start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("made", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s#%d", req.Object.Name, req.Attempt.Number)
				if req.Object.Name == "one" && req.Attempt.Number == 0 {
					return kopf.Temporary(nil, 100*millisecond)
				}
				return nil
			})),
			through(func(next http.RoundTripper) http.RoundTripper { return &lossyWatch{next} }))
		one, other := widget(ns, "one"), widget(ns, "other")
		create(ctx, one)
		Eventually(recordOf(ctx, one, "made")).ShouldNot(BeNil())
		create(ctx, other)
		handled(ctx, other)
		Expect(seen.all()).To(Equal([]string{"one#0", "other#0"}), "the first object waits for the cache; the only worker must handle the other object")
		handled(ctx, one)
		Expect(seen.all()).To(Equal([]string{"one#0", "other#0", "one#1"}))
		Expect(operator.log.find("cache does not show")).NotTo(BeEmpty())
	}, SpecTimeout(minute))
})
