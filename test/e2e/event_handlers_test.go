package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A writeRecorder records the writing requests of an operator.
type writeRecorder struct {
	mu   sync.Mutex
	next http.RoundTripper
	list []string
}

func (w *writeRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") { // reviews of permissions store nothing
		w.mu.Lock()
		w.list = append(w.list, r.Method+" "+r.URL.Path)
		w.mu.Unlock()
	}
	return w.next.RoundTrip(r)
}

func (w *writeRecorder) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.list...)
}

// setup adds the recorder to an operator.
func (w *writeRecorder) setup() setup {
	return through(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
}

var _ = Describe("Event handlers", func() {
	type W = *v1.Widget

	record := func(seen *calls) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s %q %d", req.Object.Name, req.Event, req.Object.Spec.Size)
			return nil
		}
	}

	It("receive every state in order, including the last one; the event type is empty for listed objects (PIPE-07, EVT-01, EVT-11, EVT-20, KW-07, MIG-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		listed, added := widget(ns, "listed"), widget(ns, "added")
		create(ctx, listed)
		start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", record(seen))))
		Eventually(seen.all).Should(Equal([]string{`listed "" 1`}))
		for size := 2; size < 12; size++ {
			edit(ctx, listed, func(w W) { w.Spec.Size = size })
		}
		remove(ctx, listed)
		want := []string{`listed "" 1`}
		for _, size := range []string{"2", "3", "4", "5", "6", "7", "8", "9", "10", "11"} {
			want = append(want, `listed "MODIFIED" `+size)
		}
		want = append(want, `listed "DELETED" 11`)
		Eventually(seen.all).Should(Equal(want))
		create(ctx, added)
		Eventually(seen.all).Should(Equal(append(want, `added "ADDED" 1`)))
		Consistently(seen.all, quietTime).Should(HaveLen(len(want) + 1))
	}, SpecTimeout(minute))

	It("receive every state that arrives during another call (EVT-09, EVT-11)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		release := make(chan struct{})
		op := start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", func(ctx context.Context, req *kopf.Request[W]) error {
			<-release
			return record(seen)(ctx, req)
		})))
		working(op)
		obj := widget(ns, "one")
		create(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		edit(ctx, obj, func(w W) { w.Spec.Size = 3 })
		remove(ctx, obj)
		again := widget(ns, "one")
		again.Spec.Size = 7
		create(ctx, again)
		close(release)
		Eventually(seen.all).Should(Equal([]string{
			`one "ADDED" 1`, `one "MODIFIED" 2`, `one "MODIFIED" 3`, `one "DELETED" 3`, `one "ADDED" 7`,
		}))
	}, SpecTimeout(minute))

	It("store nothing: no write, no finalizer, no result (EVT-24)", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &writeRecorder{}
		before, err := cp.Writes(ctx, "widgets", "")
		Expect(err).NotTo(HaveOccurred())
		start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", func(ctx context.Context, req *kopf.Request[W]) error {
			req.Object.Labels = map[string]string{"spied": "on"}
			req.Object.Status.Phase = "spied"
			req.SetResult("seen")
			return record(seen)(ctx, req)
		}).OnEvent("other", record(seen))), wire.setup())
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(seen.all).Should(HaveLen(2))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(HaveLen(4))
		Consistently(seen.all, quietTime).Should(HaveLen(4))
		Expect(fresh(ctx, obj)()).To(And(
			HaveField("Labels", BeEmpty()), HaveField("Annotations", BeEmpty()), HaveField("Finalizers", BeEmpty()),
			HaveField("Status", v1.WidgetStatus{})))
		Expect(wire.all()).To(BeEmpty())
		after, err := cp.Writes(ctx, "widgets", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Since(before)).To(Equal(controlplane.Counts{"POST 201": 1, "PUT 200": 1}), "only the test may write")
	}, SpecTimeout(minute))

	It("are not retried if they fail; the error is logged (EVT-21, EVT-25)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		failing := func(err error) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%v#%d", err, req.Attempt.Number)
				return err
			}
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnEvent("unknown", failing(errors.New("unknown"))).
			OnEvent("temporary", failing(kopf.Temporary(errors.New("temporary"), 0))).
			OnEvent("permanent", failing(kopf.Permanent(errors.New("permanent")))).
			OnEvent("panics", func(context.Context, *kopf.Request[W]) error {
				seen.notef("panics")
				panic("oh")
			}).
			OnEvent("good", record(seen)).
			OnCreate("created", ok[W](seen, "created"))))
		working(op)
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Eventually(seen.count).WithArguments(`one "MODIFIED" 1`).Should(Equal(1), "our own write must cause an event")
		once := []string{"unknown#0", "temporary#0", "permanent#0", "panics"}
		want := append(append(append([]string{}, once...), `one "ADDED" 1`, "created:create"), append(once, `one "MODIFIED" 1`)...)
		Consistently(seen.all, quietTime).Should(Equal(want), "EVT-23: event handlers must run before other handlers")
		Expect(op.log.find(`"handler"="unknown"`, `"error"="`)).NotTo(BeEmpty())
		Expect(op.log.find(`"handler"="panics"`, `"stack"=`)).NotTo(BeEmpty())
		Expect(recordOf(ctx, obj, "temporary")()).To(BeNil())
		Expect(eventsOf(ctx, obj)()).To(BeEmpty(), "EVT-25: failures must not cause Events")
	}, SpecTimeout(minute))

	It("support filters, which also apply to the last state (EVT-20)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		working(start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", record(seen), kopf.Label("tier", filter.Equal("gold"))))))
		obj := widget(ns, "one")
		create(ctx, obj)
		edit(ctx, obj, func(w W) { w.Labels, w.Spec.Size = map[string]string{"tier": "gold"}, 2 })
		edit(ctx, obj, func(w W) { w.Labels, w.Spec.Size = nil, 3 })
		edit(ctx, obj, func(w W) { w.Labels, w.Spec.Size = map[string]string{"tier": "gold"}, 4 })
		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{`one "MODIFIED" 2`, `one "MODIFIED" 4`, `one "DELETED" 4`}))
	}, SpecTimeout(minute))

	It("receive deletions that the watch has missed (B-04, SE-08, EVT-16)", func(ctx context.Context) {
		ns, seen, line := newNamespace(ctx), &calls{}, &watchBreaker{}
		working(start(ns, options(kopf.For(&v1.Widget{}).OnEvent("record", record(seen))), line.setup()))
		gone, stays := widget(ns, "gone"), widget(ns, "stays")
		create(ctx, gone)
		create(ctx, stays)
		Eventually(seen.all).Should(ConsistOf(`gone "ADDED" 1`, `stays "ADDED" 1`))
		line.cut()
		remove(ctx, gone)
		line.restoreWithLoss()
		Eventually(seen.all).Should(ConsistOf(`gone "ADDED" 1`, `stays "ADDED" 1`, `gone "DELETED" 1`))
		Consistently(seen.all, quietTime).Should(HaveLen(3), "a repeated list must not cause events")
	}, SpecTimeout(minute))

	It("and index handlers receive the current value of their field but no old value, and cannot write (KW-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		obj.Status.Phase = "x"
		create(ctx, obj)
		recordField := func(req *kopf.Request[*v1.Widget]) {
			old, now := req.Field()
			req.Conditions().True("Seen", "Looked", "")
			seen.notef("%s %v→%v %t %t %v", req.Reason, old, now, req.Old == nil, req.OldKnown(), req.Flush(context.Background()) != nil)
		}
		widgets := kopf.For(&v1.Widget{}).OnEvent("record", func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
			recordField(req)
			return nil
		}, kopf.Field("spec.size"))
		kopf.IndexBy(widgets, "index", func(_ context.Context, req *kopf.Request[*v1.Widget]) (map[string]int, error) {
			recordField(req)
			return map[string]int{"x": 1}, nil
		}, kopf.Field("spec.size"))
		start(ns, options(widgets))
		Eventually(seen.all).Should(ConsistOf(
			fmt.Sprintf("%s 1→1 true true true", kopf.ReasonEvent), fmt.Sprintf("%s 1→1 true true true", kopf.ReasonIndex)))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
	}, SpecTimeout(minute))
})
