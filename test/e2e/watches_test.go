package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A readRecorder records the reads of an operator, and can respond instead of the server.
type readRecorder struct {
	next    http.RoundTripper
	respond func(*http.Request) (*http.Response, error) // function that responds; nil: the server responds

	mu       sync.Mutex
	list     []url.URL
	bodies   map[*recordedBody]bool
	received bytes.Buffer // lines received by watches
	watches  int          // number of watches with a response
}

func (r *readRecorder) setup() setup {
	return through(func(next http.RoundTripper) http.RoundTripper { r.next = next; return r })
}

func (r *readRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		r.mu.Lock()
		r.list = append(r.list, *req.URL)
		r.mu.Unlock()
		if r.respond != nil {
			if response, err := r.respond(req); response != nil || err != nil {
				return response, err
			}
		}
	}
	response, err := r.next.RoundTrip(req)
	if err != nil || req.URL.Query().Get("watch") == "" || response.StatusCode != http.StatusOK {
		return response, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	body := &recordedBody{ReadCloser: response.Body, of: r}
	if r.bodies == nil {
		r.bodies = map[*recordedBody]bool{}
	}
	r.bodies[body], response.Body = true, body
	r.watches++
	return response, nil
}

// requests returns the reads with URLs that a function selects.
func (r *readRecorder) requests(want func(*url.URL) bool) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.list {
		if want(&u) {
			found = append(found, u.Path+"?"+u.RawQuery)
		}
	}
	return found
}

// watchCount returns the number of watches with a response.
func (r *readRecorder) watchCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watches
}

func (r *readRecorder) hasReceived(word string) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(r.received.String(), word)
	}
}

// end ends the watches as the server does after their timeout, or with a last event.
func (r *readRecorder) end(lastEvent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for body := range r.bodies {
		body.last.Store(&lastEvent)
		_ = body.ReadCloser.Close()
	}
	r.bodies = nil
}

// A recordedBody is the response body of a watch.
type recordedBody struct {
	io.ReadCloser
	of   *readRecorder
	last atomic.Pointer[string]
	rest *bufio.Reader
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	b.of.received.Write(p[:n])
	b.of.mu.Unlock()
	if last := b.last.Load(); err != nil && last != nil {
		if b.rest == nil {
			b.rest = bufio.NewReader(strings.NewReader(*last))
		}
		return b.rest.Read(p)
	}
	return n, err
}

func (b *recordedBody) Close() error {
	b.of.mu.Lock()
	delete(b.of.bodies, b)
	b.of.mu.Unlock()
	return b.ReadCloser.Close()
}

// errorResponse returns an error response of the server.
func errorResponse(req *http.Request, err *apierrors.StatusError, header http.Header) (*http.Response, error) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, fault := json.Marshal(status)
	response := &http.Response{
		StatusCode: int(status.Code), Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text)),
	}
	maps.Copy(response.Header, header)
	return response, fault
}

func isWatch(u *url.URL) bool { return u.Query().Get("watch") != "" }

// isListing reports whether a response starts with all existing objects.
func isListing(u *url.URL) bool {
	return strings.HasSuffix(u.Path, "/widgets") && (!isWatch(u) || u.Query().Get("sendInitialEvents") == "true")
}

var _ = Describe("Watches", func() {
	type W = *v1.Widget

	record := func(seen *calls) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s %s %q %d", req.Object.GetObjectKind().GroupVersionKind().Kind, req.Object.Name, req.Event, req.Object.Spec.Size)
			return nil
		}
	}

	It("that end are resumed without a new list; bookmarks call no handlers (EVT-02, EVT-03, EVT-04, EVT-07)", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &readRecorder{}
		listed := widget(ns, "listed")
		create(ctx, listed)
		working(start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", record(seen))), wire.setup()))
		Eventually(seen.all).Should(Equal([]string{`Widget listed "" 1`}), "EVT-02: the object must have its kind")
		Eventually(wire.hasReceived(`"BOOKMARK"`)).Should(BeTrue())
		edit(ctx, listed, func(w W) { w.Spec.Size = 2 }) // client-go treats watches that end without an event as an error
		Eventually(seen.all).Should(HaveLen(2))
		listings := wire.requests(isListing)
		for round := range 3 {
			watches := wire.watchCount()
			wire.end("")
			Eventually(wire.watchCount).Should(BeNumerically(">", watches))
			edit(ctx, listed, func(w W) { w.Spec.Size = 3 + round })
			Eventually(seen.all).Should(HaveLen(3 + round))
		}
		Expect(seen.all()).To(Equal([]string{
			`Widget listed "" 1`, `Widget listed "MODIFIED" 2`, `Widget listed "MODIFIED" 3`, `Widget listed "MODIFIED" 4`, `Widget listed "MODIFIED" 5`,
		}))
		Expect(wire.requests(isListing)).To(Equal(listings), "EVT-04: the operator must not list again")
		for _, query := range wire.requests(isWatch) {
			Expect(query).To(And(ContainSubstring("allowWatchBookmarks=true"), ContainSubstring("timeoutSeconds="), ContainSubstring("resourceVersion")), "EVT-03: want bookmarks, a timeout and a start version")
		}
	}, SpecTimeout(minute))

	It("that receive any error list again, and miss no changes (EVT-05, EVT-08, SE-14, RUN-06)", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &readRecorder{}
		working(start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", record(seen))), wire.setup()))
		for i, fault := range []*apierrors.StatusError{
			apierrors.NewResourceExpired("injected: too old"),
			apierrors.NewInternalError(errors.New("injected: out of order")),
		} {
			text, err := json.Marshal(map[string]any{"type": "ERROR", "object": metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status:   fault.ErrStatus.Status, Code: fault.ErrStatus.Code, Reason: fault.ErrStatus.Reason, Message: fault.ErrStatus.Message,
			}})
			Expect(err).NotTo(HaveOccurred())
			watches := wire.watchCount()
			wire.end(string(text) + "\n")
			Eventually(wire.watchCount).Should(BeNumerically(">", watches))
			create(ctx, widget(ns, []string{"one", "two"}[i]))
			Eventually(seen.all).Should(HaveLen(i + 1))
		}
		Expect(seen.all()).To(Equal([]string{`Widget one "ADDED" 1`, `Widget two "ADDED" 1`}))
	}, SpecTimeout(minute))

	It("that the server rejects are requested again until they succeed (EVT-08, SE-14, RUN-06)", func(ctx context.Context) {
		ns, seen, refused := newNamespace(ctx), &calls{}, atomic.Int64{}
		wire := &readRecorder{respond: func(req *http.Request) (*http.Response, error) {
			if !isListing(req.URL) || refused.Add(1) > 3 {
				return nil, nil
			}
			return errorResponse(req, []*apierrors.StatusError{
				apierrors.NewInternalError(errors.New("injected: out of order")),
				apierrors.NewForbidden(v1.GroupVersion.WithResource("widgets").GroupResource(), "", errors.New("injected: not yet")),
				apierrors.NewUnauthorized("injected: unauthorized"),
			}[refused.Load()-1], nil)
		}}
		create(ctx, widget(ns, "one"))
		start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", record(seen))), wire.setup())
		Eventually(seen.all).Should(Equal([]string{`Widget one "" 1`}))
		Expect(refused.Load()).To(BeNumerically(">", 3))
	}, SpecTimeout(minute))
})

var _ = Describe("The client of the manager", func() {
	type W = *v1.Widget

	It("waits as long as a busy server requests, and the engine calls no handler again (NET-03)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var sent, came atomic.Int64
		op := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created"))), withFaults(
			func(r *http.Request, n int64, next http.RoundTripper) (*http.Response, error) {
				if n == 1 {
					sent.Store(time.Now().UnixNano())
					return errorResponse(r, apierrors.NewTooManyRequests("injected: busy", 1), http.Header{"Retry-After": {"1"}})
				}
				came.CompareAndSwap(0, time.Now().UnixNano())
				return next.RoundTrip(r)
			}))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created:create"}))
		Expect(time.Duration(came.Load() - sent.Load())).To(BeNumerically(">=", time.Second))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})
