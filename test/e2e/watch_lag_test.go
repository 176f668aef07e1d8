package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A laggingTransport delivers the events of watches with a delay.
type laggingTransport struct {
	next http.RoundTripper
	lag  time.Duration
}

func (l *laggingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return response, err
	}
	response.Body = newSlowBody(response.Body, l.lag)
	return response, nil
}

// A slowBody delivers each chunk after its delay.
type slowBody struct {
	io.Closer
	chunks chan chunk
	rest   []byte
	closed chan struct{}
}

type chunk struct {
	data []byte
	due  time.Time
	err  error
}

func newSlowBody(body io.ReadCloser, lag time.Duration) *slowBody {
	s := &slowBody{Closer: body, chunks: make(chan chunk, 10000), closed: make(chan struct{})}
	go func() {
		for {
			buffer := make([]byte, 64<<10)
			n, err := body.Read(buffer)
			s.chunks <- chunk{buffer[:n], time.Now().Add(lag), err}
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *slowBody) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		next := <-s.chunks
		if next.err == nil {
			<-time.After(time.Until(next.due))
		}
		if next.err != nil && len(next.data) == 0 {
			return 0, next.err
		}
		s.rest = next.data
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

var _ = Describe("An operator whose watch lags by 10 s", func() {
	type W = *v1.Widget

	It("calls each handler only once (B-10, FIN-17, MIG-15)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		operator := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("first", ok[W](seen, "first")).
			OnCreate("second", failsUntil[W](seen, "second", 1, kopf.Temporary(errors.New("not yet"), 500*millisecond))).
			OnUpdate("updated", ok[W](seen, "updated")).
			OnDelete("deleted", ok[W](seen, "deleted"))),
			through(func(next http.RoundTripper) http.RoundTripper { return &laggingTransport{next, 10 * time.Second} }))

		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(seen.all).WithTimeout(minute).Should(
			Equal([]string{"first:create", "second:create#0", "second:create#1"}))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.count).WithArguments("updated:update").WithTimeout(minute).Should(Equal(1))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).WithTimeout(minute).Should(BeTrue())
		Consistently(seen.all).WithTimeout(12*time.Second).Should(Equal([]string{
			"first:create", "second:create#0", "second:create#1", "updated:update", "deleted:delete"}),
			"the stale cache must not cause further calls")
		Expect(operator.log.errors()).To(BeEmpty())
		Expect(strings.Join(operator.log.find("cache does not show"), "\n")).NotTo(BeEmpty(),
			"the lag exceeds the consistency timeout, so the engine must read from the API server")
	}, SpecTimeout(3*minute))
})
