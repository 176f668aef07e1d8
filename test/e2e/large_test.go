package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A recordingTransport records the writes that the server rejects with a 4xx. It ignores reads, because these may fail
// while the server fills its own cache.
type recordingTransport struct {
	next     http.RoundTripper
	rejected *errorRecorder
}

type errorRecorder struct {
	mu   sync.Mutex
	list []string
}

func (c recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if strings.Contains(r.URL.Path, "/events.k8s.io/") {
		return response, err // rejected Events are not part of this check
	}
	if err == nil && r.Method != http.MethodGet && response.StatusCode >= 400 && response.StatusCode < 500 {
		c.rejected.mu.Lock()
		defer c.rejected.mu.Unlock()
		c.rejected.list = append(c.rejected.list, fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, response.Status))
	}
	return response, err
}

func (b *errorRecorder) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.list...)
}

func recordErrors(rejected *errorRecorder) setup {
	return through(func(next http.RoundTripper) http.RoundTripper { return recordingTransport{next, rejected} })
}

// apply adds the last-applied configuration, as kubectl apply does.
func apply(w *v1.Widget) {
	GinkgoHelper()
	const key = "kubectl.kubernetes.io/last-applied-configuration"
	var text bytes.Buffer
	Expect(json.NewEncoder(&text).Encode(map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": "Widget", "spec": w.Spec,
		"metadata": map[string]any{"annotations": map[string]any{}, "name": w.Name, "namespace": w.Namespace},
	})).To(Succeed())
	if w.Annotations == nil {
		w.Annotations = map[string]string{}
	}
	w.Annotations[key] = text.String()
}

// fillingColor returns a color with which the baseline of the object leaves 100 bytes for annotations.
func fillingColor(obj *v1.Widget) string {
	GinkgoHelper()
	obj.Spec.Color = ""
	text, err := json.Marshal(map[string]any{"spec": obj.Spec})
	Expect(err).NotTo(HaveOccurred())
	return strings.Repeat("x", annotationsLimit-len(baselineKey)-len(text)-100)
}

var _ = Describe("A large object", func() {
	type W = *v1.Widget

	// warnings returns the Events about the object.
	warnings := func(ctx context.Context, obj W) func() ([]eventsv1.Event, error) {
		return func() (found []eventsv1.Event, err error) {
			var list eventsv1.EventList
			err = k8s.List(ctx, &list, client.InNamespace(obj.Namespace))
			for _, event := range list.Items {
				if event.Regarding.UID == obj.UID {
					found = append(found, event)
				}
			}
			return found, err
		}
	}

	It("is handled without its old state, with one Warning Event (B-31, SE-21)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			On("any", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s known %t old %t diff %d", req.Reason, req.OldKnown(), req.Old != nil, len(req.Diff))
				return nil
			})))
		obj := widget(ns, "one")
		obj.Spec.Color = strings.Repeat("x", 270<<10)
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Annotations", And(
			HaveKeyWithValue(baselineKey, MatchJSON("{}")), HaveKeyWithValue(digestAnnotation, ContainSubstring("digest")))))
		want := []string{"create known true old false diff 1"}
		for n := range 3 {
			edit(ctx, obj, func(w W) { w.Spec.Size = n + 10 })
			want = append(want, "update known false old false diff 0")
			Eventually(seen.all).Should(Equal(want))
			handled(ctx, obj)
		}
		Consistently(seen.all, quietTime).Should(Equal(want))
		Eventually(warnings(ctx, obj)).Should(ConsistOf(And(
			HaveField("Type", "Warning"), HaveField("Reason", "BaselineTooLarge"), HaveField("Action", "Handle"),
			HaveField("ReportingController", "kopf-runtime"), HaveField("Series", BeNil()),
			HaveField("Note", ContainSubstring("too large")))))
		Consistently(warnings(ctx, obj), quietTime).Should(HaveLen(1))
		Eventually(op.log.find).WithArguments(`"msg"="The object is too large`, `"name"="one"`).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("stores its whole old state if the API server accepts it, as in kopf (B-31)", func(ctx context.Context) {
		ns, seen, rejected := newNamespace(ctx), &calls{}, &errorRecorder{}
		start(ns, options(kopf.For(&v1.Widget{}).
			On("any", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s known %t old %t diff %d", req.Reason, req.OldKnown(), req.Old != nil, len(req.Diff))
				return nil
			})), recordErrors(rejected))
		obj := widget(ns, "one")
		obj.Spec.Color = fillingColor(obj)
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"create known true old false diff 1", "update known true old true diff 1"}))
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Annotations", And(HaveLen(1), HaveKeyWithValue(baselineKey, ContainSubstring("xxx")))))
		Expect(rejected.all()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("keeps its records in memory if its old state fills the annotations (B-31)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithConditions("Ready")).
			On("quick", createOrUpdate, ok[W](seen, "quick")).
			OnUpdate("slow", failsUntil[W](seen, "slow", 2, kopf.Temporary(errOutOfOrder, 50*millisecond))).
			OnDelete("gone", failsUntil[W](seen, "gone", 2, kopf.Temporary(errOutOfOrder, 50*millisecond)))))
		obj := widget(ns, "one")
		obj.Spec.Color = fillingColor(obj)
		create(ctx, obj)
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		want := []string{"quick:create", "quick:update", "slow:update#0", "slow:update#1", "slow:update#2"}
		Eventually(seen.all).Should(Equal(want))
		Eventually(fresh(ctx, obj)).Should(And(
			HaveField("Annotations", And(HaveLen(1), HaveKeyWithValue(baselineKey, ContainSubstring(`"size":2`)))),
			HaveField("Status.Conditions", ConsistOf(HaveField("Type", "Ready")))))
		Eventually(warnings(ctx, obj)).Should(ContainElement(HaveField("Reason", "ProgressNotStored")))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal(append(want, "gone:delete#0", "gone:delete#1", "gone:delete#2")))
	}, SpecTimeout(minute))

	It("is pinned by its digest: an edit between two handlers is not lost (B-01, B-31)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).
			On("first", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("first:%s %d", req.Reason, req.Object.Spec.Size)
				return nil
			}).
			On("second", createOrUpdate, func(_ context.Context, req *kopf.Request[W]) error {
				if req.Object.Spec.Size == 1 { // the handler waits until the cache contains the edit
					return kopf.Temporary(errOutOfOrder, 200*millisecond)
				}
				seen.notef("second:%s %d", req.Reason, req.Object.Spec.Size)
				return nil
			})))
		obj := widget(ns, "one")
		obj.Spec.Color = strings.Repeat("x", 250<<10)
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", BeNumerically(">", 0)))
		Expect(fresh(ctx, obj)()).To(HaveField("Annotations", HaveKeyWithValue(pinKey, Not(ContainSubstring("xxx")))))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"first:create 1", "second:create 2", "first:update 2", "second:update 2"}))
		handled(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Annotations", Not(HaveKey(pinKey))))
	}, SpecTimeout(minute))

	DescribeTable("whose spec is also in an annotation of kubectl is handled without a 4xx response (B-31)",
		func(ctx context.Context, handlers int, text string) {
			ns, seen := newNamespace(ctx), &calls{}
			var err error
			if text != "" {
				err = kopf.Temporary(errors.New(strings.Repeat(text, 500)), 50*millisecond)
			}
			resource := kopf.For(&v1.Widget{})
			for n := range handlers {
				id := fmt.Sprintf("h%d", n)
				resource.On(id, []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}, func(_ context.Context, req *kopf.Request[W]) error {
					if err != nil && req.Attempt.Number < 2 {
						return err
					}
					seen.notef("%s:%s", id, req.Reason)
					return nil
				})
			}
			rejected := &errorRecorder{}
			op := start(ns, options(resource), recordErrors(rejected))
			obj := widget(ns, "one")
			obj.Spec.Color = ""
			for range 250 { // each tag has 1 KiB in JSON
				obj.Spec.Tags = append(obj.Spec.Tags, strings.Repeat("x", 1<<10-3))
			}
			apply(obj)
			create(ctx, obj)
			handled(ctx, obj)
			Expect(seen.all()).To(HaveLen(handlers))
			edit(ctx, obj, func(w W) { w.Spec.Size = 2; apply(w) })
			Eventually(seen.all).Should(HaveLen(2 * handlers))
			handled(ctx, obj)
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
			Expect(seen.all()).To(HaveLen(3 * handlers))
			Expect(rejected.all()).To(BeEmpty())
			Expect(op.log.errors()).To(BeEmpty())
		},
		Entry("by a handler that succeeds", SpecTimeout(minute), 1, ""),
		Entry("by a handler that fails at first, with a long message", SpecTimeout(minute), 1, "it is out of order; "),
		Entry("by a handler that fails at first, with a long message beyond ASCII", SpecTimeout(minute), 1, "не работает, 壊れている 💥 "),
		Entry("by ten handlers that succeed", SpecTimeout(minute), 10, ""),
		Entry("by ten handlers that fail at first, with long messages beyond ASCII", SpecTimeout(minute), 10, "не работает, 壊れている 💥 "),
	)
})
