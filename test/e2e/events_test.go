package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// refusing answers requests for Events itself.
type refusing struct {
	next  http.RoundTripper
	asked atomic.Int64
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/events") && request.Method != http.MethodGet {
		r.asked.Add(1)
		return nil, errors.New("no Events today, says the test")
	}
	return r.next.RoundTrip(request)
}

var _ = Describe("Events that nobody asks for", func() {
	type W = *v1.Widget
	const fast = 20 * time.Millisecond

	// ofAllKinds are handlers that end in all ways.
	ofAllKinds := func() *kopf.Resource[W] {
		seen := &calls{}
		return kopf.For(&v1.Widget{}).
			OnCreate("good", ok[W](seen, "good")).
			OnCreate("bad", fails[W](seen, "bad", kopf.Permanent(errors.New("no way")))).
			OnCreate("worse", fails[W](seen, "worse", kopf.Permanent(errors.New("never")))).
			OnCreate("mended", failsUntil[W](seen, "mended", 2, errors.New("not yet")), kopf.Backoff(fast)).
			OnCreate("careless", fails[W](seen, "careless", errors.New("so what")), kopf.Errors(kopf.ErrorsIgnored)).
			OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
				req.Eventf("Normal", "Said", "Say", "hello")
				return nil
			})
	}
	const said = "Normal Said Say: hello"

	It("are of transitions, of each handler its own, in events.k8s.io (POST-01, POST-02, POST-09)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(ofAllKinds()))
		handled(ctx, a)
		want := []string{
			"Warning HandlerFailed bad: bad: no way", "Warning HandlerFailed worse: worse: never",
			"Normal HandlerRecovered mended: mended has succeeded; failed attempts before that: 2", said,
		}
		Eventually(eventsOf(ctx, a)).Should(ConsistOf(want))
		Consistently(eventsOf(ctx, a)).Should(ConsistOf(want))
		var list eventsv1.EventList
		Expect(k8s.List(ctx, &list)).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == a.UID {
				Expect(event.ReportingController).To(Equal("kopf-runtime"))
				Expect(event.Namespace).To(Equal(ns))
				Expect(event.Regarding).To(And(HaveField("Kind", "Widget"), HaveField("Name", "a"), HaveField("Namespace", ns)))
			}
		}
	}, SpecTimeout(minute))

	It("are of each step if that is wanted (POST-09)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(ofAllKinds(), kopf.WithEvents(kopf.EventsSteps)))
		handled(ctx, a)
		distinct := func() ([]string, error) {
			all, err := eventsOf(ctx, a)()
			slices.Sort(all)
			return slices.Compact(all), err
		}
		Eventually(distinct).Should(ConsistOf(
			"Normal HandlerSucceeded good: good", "Warning HandlerFailed bad: bad: no way", "Warning HandlerFailed worse: worse: never",
			"Warning HandlerRetries mended: mended: not yet",
			"Normal HandlerRecovered mended: mended has succeeded; failed attempts before that: 2",
			"Warning HandlerIgnored careless: careless: so what", "Normal HandlerSucceeded says: says", said))
	}, SpecTimeout(minute))

	It("can be switched off; those of handlers stay (POST-09, POST-10)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(ofAllKinds(), kopf.WithEvents(kopf.EventsOff)))
		handled(ctx, a)
		Eventually(eventsOf(ctx, a)).Should(ConsistOf(said))
		Consistently(eventsOf(ctx, a)).Should(ConsistOf(said))
	}, SpecTimeout(minute))

	It("are cut in the middle, between characters, if they are too long for the server (POST-06)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("bad", func(_ context.Context, req *kopf.Request[W]) error {
			req.Eventf("Normal", strings.Repeat("R", 500), strings.Repeat("A", 500), "%s", strings.Repeat("x", 1024))
			return kopf.Permanent(errors.New("begin " + strings.Repeat("é", 2000) + " end"))
		})))
		Eventually(eventsOf(ctx, a)).Should(ConsistOf(
			And(HavePrefix("Warning HandlerFailed bad: bad: begin éé"), HaveSuffix("éé end"), ContainSubstring("é...é"), Not(ContainSubstring("\uFFFD"))),
			And(HavePrefix("Normal RRR"), HaveSuffix(": "+strings.Repeat("x", 1024)))))
	}, SpecTimeout(minute))

	It("do not hold up or fail handlers if they cannot be posted (POST-13, POST-14)", func(ctx context.Context) {
		ns, wire := newNamespace(ctx), &refusing{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(ofAllKinds()), through(func(next http.RoundTripper) http.RoundTripper { wire.next = next; return wire }))
		handled(ctx, a)
		Eventually(wire.asked.Load).Should(BeNumerically(">", 0))
		Expect(eventsOf(ctx, a)()).To(BeEmpty())
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		handled(ctx, a)
	}, SpecTimeout(minute))

	It("of a noisy object are counted, and do not mute those of others (POST-08)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		noisy, quiet := widget(ns, "noisy"), widget(ns, "quiet")
		create(ctx, noisy)
		wire := &writing{}
		const noise = 900
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
			if req.Object.Name == "quiet" {
				req.Eventf("Normal", "Said", "Say", "hello")
				return nil
			}
			for n := range noise {
				req.Eventf("Warning", "Noise", "Shout", "%d", n)
			}
			return nil
		})), wire.setup())
		create(ctx, quiet)
		Eventually(eventsOf(ctx, quiet)).Should(ConsistOf(said))
		Eventually(eventsOf(ctx, noisy)).Should(HaveLen(1))
		posts := 0
		for _, request := range wire.all() {
			if strings.Contains(request, "/events") {
				posts++
			}
		}
		// One for each object and a count; again if the count was faster than what it counts.
		Expect(posts).To(BeNumerically("<", 10), "%v", wire.all())
	}, SpecTimeout(minute))

	It("about objects of the cluster are in the namespace default (POST-01)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		start("", options(kopf.For(&corev1.Namespace{}).OnEvent("says", func(_ context.Context, req *kopf.Request[*corev1.Namespace]) error {
			req.Eventf("Normal", "Seen", "Look", "it is there")
			return nil
		}, kopf.Field("metadata.name", kopf.Equal(ns)))))
		Expect(k8s.Get(ctx, keyOf(space), space)).To(Succeed())
		Eventually(eventsOf(ctx, space)).Should(ContainElement("Normal Seen Look: it is there"))
		var list eventsv1.EventList
		Expect(k8s.List(ctx, &list)).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == space.UID {
				Expect(event.Namespace).To(Equal("default"))
			}
		}
	}, SpecTimeout(minute))

	It("about Events are not posted: there would be no end of them (POST-07)", func(ctx context.Context) {
		ns, wire, seen := newNamespace(ctx), &writing{}, &calls{}
		start(ns, options(kopf.For(&corev1.Event{}).OnEvent("says", func(_ context.Context, req *kopf.Request[*corev1.Event]) error {
			seen.notef("seen")
			req.Eventf("Normal", "Seen", "Look", "it is there")
			return nil
		})), wire.setup())
		create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: "one"},
			InvolvedObject: corev1.ObjectReference{Kind: "Widget", Namespace: ns, Name: "a"}, Reason: "R", Type: "Normal",
		})
		Eventually(seen.all).ShouldNot(BeEmpty())
		Consistently(wire.all).Should(BeEmpty())
	}, SpecTimeout(minute))
})

// What is logged of an object has all by which it is found.
var _ = Describe("The log", func() {
	type W = *v1.Widget

	It("names the object, the handler and the attempt; each attempt is told before and after, a cause when it is over (LOG-01, LOG-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("made", failsUntil[W](seen, "made", 1, kopf.Temporary(errOutOfOrder, 0))).
			OnCreate("bad", fails[W](seen, "bad", kopf.Permanent(errOutOfOrder)))))
		handled(ctx, a)
		object := []string{`"kind"="Widget"`, fmt.Sprintf("%q=%q", "namespace", ns), `"name"="a"`, fmt.Sprintf("%q=%q", "uid", a.UID)}
		line := func(words ...string) []string { return append(slices.Clone(object), words...) }
		Expect(r.log.find(line("Calling the handler", `"level"=1`, `"handler"="made"`, `"reason"="create"`, `"attempt"=1`)...)).To(HaveLen(1))
		Expect(r.log.find(line("Handler succeeded", `"handler"="made"`, `"attempt"=1`, `"took"=`)...)).To(HaveLen(1))
		Expect(r.log.find(line("Handler failed for good", `"handler"="bad"`, `"error"=`)...)).To(HaveLen(1))
		Eventually(func() []string { return r.log.find(line("Handled", `"level"=0`, `"succeeded"=1`, `"failed"=1`)...) }).Should(HaveLen(1))
	}, SpecTimeout(minute))
})
