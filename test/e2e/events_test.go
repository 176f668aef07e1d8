package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A rejectingTransport fails writes of Events without sending them.
type rejectingTransport struct {
	next     http.RoundTripper
	rejected atomic.Int64
}

func (r *rejectingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/events") && request.Method != http.MethodGet {
		r.rejected.Add(1)
		return nil, errors.New("injected: Events cannot be posted")
	}
	return r.next.RoundTrip(request)
}

var _ = Describe("Automatic Events", func() {
	type W = *v1.Widget
	const fast = 20 * time.Millisecond

	// allOutcomes returns a resource with a handler for each outcome.
	allOutcomes := func() *kopf.Resource[W] {
		seen := &calls{}
		return kopf.For(&v1.Widget{}).
			OnCreate("good", ok[W](seen, "good")).
			OnCreate("bad", fails[W](seen, "bad", kopf.Permanent(errors.New("invalid")))).
			OnCreate("worse", fails[W](seen, "worse", kopf.Permanent(errors.New("never")))).
			OnCreate("recovering", failsUntil[W](seen, "recovering", 2, errors.New("not yet")), kopf.Backoff(fast)).
			OnCreate("ignoring", fails[W](seen, "ignoring", errors.New("ignored failure")), kopf.ErrorMode(progress.ErrorsIgnored)).
			OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
				req.Eventf("Normal", "Said", "Say", "hello")
				return nil
			})
	}
	const said = "Normal Said Say: hello"

	It("are posted for transitions, for each handler separately, in events.k8s.io (POST-01, POST-02, POST-09)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(allOutcomes()))
		handled(ctx, a)
		want := []string{
			"Warning HandlerFailed bad: bad: invalid", "Warning HandlerFailed worse: worse: never",
			"Normal HandlerRecovered recovering: recovering has succeeded; failed attempts before that: 2", said,
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

	It("are posted for each attempt if this is enabled (POST-09)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(allOutcomes(), kopf.WithEvents(events.Options{Level: events.Steps})))
		handled(ctx, a)
		distinct := func() ([]string, error) {
			all, err := eventsOf(ctx, a)()
			slices.Sort(all)
			return slices.Compact(all), err
		}
		Eventually(distinct).Should(ConsistOf(
			"Normal HandlerSucceeded good: good", "Warning HandlerFailed bad: bad: invalid", "Warning HandlerFailed worse: worse: never",
			"Warning HandlerRetries recovering: recovering: not yet",
			"Normal HandlerRecovered recovering: recovering has succeeded; failed attempts before that: 2",
			"Warning HandlerIgnored ignoring: ignoring: ignored failure", "Normal HandlerSucceeded says: says", said))
	}, SpecTimeout(minute))

	It("can be disabled; Events of handlers remain (POST-09, POST-10)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(allOutcomes(), kopf.WithEvents(events.Options{Level: events.Off})))
		handled(ctx, a)
		Eventually(eventsOf(ctx, a)).Should(ConsistOf(said))
		Consistently(eventsOf(ctx, a)).Should(ConsistOf(said))
	}, SpecTimeout(minute))

	It("that are too long for the server are shortened in the middle, between characters (POST-06)", func(ctx context.Context) {
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

	It("do not delay or fail handlers if they cannot be posted (POST-13, POST-14)", func(ctx context.Context) {
		ns, wire := newNamespace(ctx), &rejectingTransport{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(allOutcomes()), through(func(next http.RoundTripper) http.RoundTripper { wire.next = next; return wire }))
		handled(ctx, a)
		Eventually(wire.rejected.Load).Should(BeNumerically(">", 0))
		Expect(eventsOf(ctx, a)()).To(BeEmpty())
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		handled(ctx, a)
	}, SpecTimeout(minute))

	It("of an object with many Events are counted, and do not suppress Events of other objects (POST-08, SE-29)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		noisy, quiet := widget(ns, "noisy"), widget(ns, "quiet")
		create(ctx, noisy)
		wire := &writeRecorder{}
		const noise = 900
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
			if req.Object.Name == "quiet" {
				req.Eventf("Normal", "Said", "Say", "hello")
				return nil
			}
			for range noise {
				req.Eventf("Warning", "Noise", "Shout", "no")
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
		// Each object has one Event with a count, or two if the count was written before the last call.
		Expect(posts).To(BeNumerically("<", 10), "%v", wire.all())
	}, SpecTimeout(minute))

	It("with different notes stay separate, and Normal Events do not displace Warnings (POST-08)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
			for n := range 38 {
				req.Eventf("Normal", "SuccessfulCreate", "Create", "created pod %d", n)
			}
			for n := range 2 {
				req.Eventf("Warning", "BackupFailed", "Backup", "disk %d is full", n)
			}
			return kopf.Permanent(errors.New("no disk has room"))
		})))
		want := []string{
			"Normal SuccessfulCreate Create: created pod 0", "Warning BackupFailed Backup: disk 0 is full (before this, 8 other Events about this object were dropped: there were too many)",
			"Warning BackupFailed Backup (2): disk 1 is full", "Warning HandlerFailed says: says: no disk has room",
		}
		for n := 1; n < 30; n++ {
			want = append(want, fmt.Sprintf("Normal SuccessfulCreate Create (%d): created pod %d", n+1, n))
		}
		Eventually(eventsOf(ctx, a)).Should(ConsistOf(want))
		Expect(r.log.find("Dropped an Event", `"level"=0`)).To(HaveLen(1))
		Expect(r.log.find("Dropped an Event", `"level"=1`)).To(HaveLen(7))
	}, SpecTimeout(minute))

	It("are posted for transitions of timers and daemons: once when they start to fail, and once when they recover", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		a.Spec.Color = "bad"
		create(ctx, a)
		var checks atomic.Int64
		checkColor := func(_ context.Context, req *kopf.Request[W]) error {
			checks.Add(1)
			if req.Object.Spec.Color == "bad" {
				return kopf.Permanent(errors.New("bad color"))
			}
			return nil
		}
		flaky := func(_ context.Context, req *kopf.Request[W]) error { // retries are not transitions
			if req.Attempt.Number == 0 {
				return errors.New("conflict")
			}
			return nil
		}
		r := start(ns, options(kopf.For(&v1.Widget{}).
			OnReconcile("sync", checkColor).
			Timer("timer", daemons.Timer{Interval: fast}, checkColor).
			Daemon("daemon", daemons.Daemon{Restart: daemons.RestartAlways}, checkColor, kopf.Backoff(fast)).
			OnReconcile("flaky-sync", flaky, kopf.Backoff(fast), kopf.Interval(fast)).
			Timer("flaky-timer", daemons.Timer{Interval: fast}, flaky, kopf.Backoff(fast))))
		failed := []string{
			"Warning HandlerFailed sync: sync: bad color", "Warning HandlerFailed timer: timer: bad color",
			"Warning HandlerFailed daemon: daemon: bad color",
		}
		Eventually(eventsOf(ctx, a)).Should(ConsistOf(failed))
		for n := range 3 {
			edit(ctx, a, func(w W) { w.Spec.Size += n + 1 })
			before := checks.Load()
			Eventually(checks.Load).Should(BeNumerically(">", before+1))
		}
		Expect(eventsOf(ctx, a)()).To(ConsistOf(failed))
		edit(ctx, a, func(w W) { w.Spec.Color = "good" })
		Eventually(eventsOf(ctx, a)).Should(ContainElements(
			"Normal HandlerRecovered sync: sync has succeeded; before that, it had failed permanently",
			"Normal HandlerRecovered timer: timer has succeeded; before that, it had failed permanently",
			"Normal HandlerRecovered daemon: daemon has succeeded; before that, it had failed permanently"))
		Consistently(eventsOf(ctx, a)).Should(HaveLen(6))
		r.stop()
	}, SpecTimeout(minute))

	It("can be posted in the core API, as by kopf (POST-01, POST-02, POST-03, POST-04, POST-06)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a, space := widget(ns, "a"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		create(ctx, a)
		began := time.Now()
		long := strings.Repeat("é", 2000)
		r := start(ns, options(
			kopf.For(&v1.Widget{}).OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
				req.Eventf("Warning", "Said", "Say", "hello: %s", long)
				return kopf.Permanent(errors.New("invalid"))
			}),
			kopf.For(&corev1.Namespace{}).OnEvent("says", func(_ context.Context, req *kopf.Request[*corev1.Namespace]) error {
				req.Eventf("Normal", "Seen", "Look", "the object exists")
				return nil
			}, kopf.Field("metadata.name", filter.Equal(ns))),
			kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{Instance: "here"}})))
		posted := func(about client.Object, namespace string) func() ([]corev1.Event, error) {
			return func() ([]corev1.Event, error) {
				var list corev1.EventList
				err := k8s.List(ctx, &list, client.InNamespace(namespace))
				return slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID != about.GetUID() }), err
			}
		}
		Eventually(posted(a, ns)).Should(HaveLen(2))
		all, err := posted(a, ns)()
		Expect(err).NotTo(HaveOccurred())
		for _, e := range all {
			Expect(e.GenerateName).To(Equal("kopf-event-"))
			Expect(e.InvolvedObject).To(Equal(corev1.ObjectReference{
				APIVersion: "e2e.example.com/v1", Kind: "Widget", Namespace: ns, Name: "a", UID: a.UID,
			}))
			Expect(e.ReportingController).To(Equal("kopf"))
			Expect(e.ReportingInstance).To(Equal("here"))
			Expect(e.Source).To(Equal(corev1.EventSource{Component: "kopf"}))
			Expect(e.Action).To(Equal("Action?"))
			Expect(e.Type).To(Equal("Warning"))
			Expect(e.Count).To(BeZero())
			Expect(e.Series).To(BeNil())
			for _, at := range []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time} {
				Expect(at).To(BeTemporally("~", began, time.Minute))
			}
			Expect(e.EventTime.Truncate(time.Second)).To(BeTemporally("==", e.FirstTimestamp.Time))
		}
		Expect(all).To(ConsistOf(
			And(HaveField("Reason", "HandlerFailed"), HaveField("Message", "says: invalid")),
			And(HaveField("Reason", "Said"), HaveField("Message", And(HavePrefix("hello: éé"), HaveSuffix("éé"), ContainSubstring("..."))))))

		Expect(k8s.Get(ctx, keyOf(space), space)).To(Succeed())
		Eventually(posted(space, "default")).Should(ContainElement(And(
			HaveField("InvolvedObject.Namespace", "default"), HaveField("InvolvedObject.Kind", "Namespace"), HaveField("Message", "the object exists"))))
		r.stop()
		Expect(r.log.find("Failed to post an Event")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("that the API server rejects are logged with the reason", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("says", func(_ context.Context, req *kopf.Request[W]) error {
			req.Eventf("Error", "Said", "Say", "hello")
			req.Eventf("Normal", "", "Say", "hello")
			req.Eventf("Normal", "Said", "", "hello")
			return nil
		})))
		handled(ctx, a)
		for _, why := range []string{"the type must be Normal or Warning", "the reason is empty", "the action is empty"} {
			Eventually(r.log.find).WithArguments("Failed to post an Event", why, `"name"="a"`).Should(HaveLen(1))
		}
		Consistently(eventsOf(ctx, a)).Should(BeEmpty())
	}, SpecTimeout(minute))

	It("about a deleted object are posted", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).OnEvent("says", func(_ context.Context, req *kopf.Request[W]) error {
			if req.Event == watch.Deleted {
				req.Eventf("Normal", "Gone", "Leave", "deleted")
			}
			return nil
		})))
		working(r)
		remove(ctx, a)
		Eventually(eventsOf(ctx, a)).Should(ConsistOf("Normal Gone Leave: deleted"))
	}, SpecTimeout(minute))

	It("about cluster-scoped objects are in the namespace default (POST-01)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		start("", options(kopf.For(&corev1.Namespace{}).OnEvent("says", func(_ context.Context, req *kopf.Request[*corev1.Namespace]) error {
			req.Eventf("Normal", "Seen", "Look", "the object exists")
			return nil
		}, kopf.Field("metadata.name", filter.Equal(ns)))))
		Expect(k8s.Get(ctx, keyOf(space), space)).To(Succeed())
		Eventually(eventsOf(ctx, space)).Should(ContainElement("Normal Seen Look: the object exists"))
		var list eventsv1.EventList
		Expect(k8s.List(ctx, &list)).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == space.UID {
				Expect(event.Namespace).To(Equal("default"))
			}
		}
	}, SpecTimeout(minute))

	It("about Events are not posted, because each Event would cause another Event (POST-07)", func(ctx context.Context) {
		ns, wire, seen := newNamespace(ctx), &writeRecorder{}, &calls{}
		start(ns, options(kopf.For(&corev1.Event{}).OnEvent("says", func(_ context.Context, req *kopf.Request[*corev1.Event]) error {
			seen.notef("seen")
			req.Eventf("Normal", "Seen", "Look", "the object exists")
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

var _ = Describe("The log", func() {
	type W = *v1.Widget

	It("names object, handler and attempt; it has lines before and after each attempt and at the end of each cause (LOG-01, LOG-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("made", failsUntil[W](seen, "made", 1, kopf.Temporary(errOutOfOrder, 0))).
			OnCreate("bad", fails[W](seen, "bad", kopf.Permanent(errOutOfOrder)))))
		handled(ctx, a)
		object := []string{`"kind"="Widget"`, fmt.Sprintf("%q=%q", "namespace", ns), `"name"="a"`, fmt.Sprintf("%q=%q", "uid", a.UID)}
		line := func(words ...string) []string { return append(slices.Clone(object), words...) }
		Expect(r.log.find(line("Handling", `"level"=1`, `"reason"="create"`, `"handlers"=["made" "bad"]`)...)).To(HaveLen(1))
		Expect(r.log.find(line("Calling the handler", `"level"=1`, `"handler"="made"`, `"reason"="create"`, `"attempt"=1`)...)).To(HaveLen(1))
		Expect(r.log.find(line("Handler succeeded", `"handler"="made"`, `"attempt"=1`, `"took"=`)...)).To(HaveLen(1))
		Expect(r.log.find(line("Handler failed permanently", `"handler"="bad"`, `"error"=`)...)).To(HaveLen(1))
		Eventually(func() []string { return r.log.find(line("Handled", `"level"=0`, `"succeeded"=1`, `"failed"=1`)...) }).Should(HaveLen(1))
		host, err := os.Hostname()
		Expect(err).NotTo(HaveOccurred())
		for _, one := range r.log.find(object...) {
			Expect(one).To(ContainSubstring(fmt.Sprintf("%q=%q", "operator", host)), "the line must name the operator")
		}
	}, SpecTimeout(minute))

	It("names changed fields, but not their values (LOG-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("made", ok[W](seen, "made")).OnUpdate("changed", ok[W](seen, "changed")).
			Timer("checks", daemons.Timer{Interval: time.Hour}, ok[W](seen, "checks")).OnReconcile("sync", ok[W](seen, "sync"))))
		handled(ctx, a)
		edit(ctx, a, func(w W) { w.Spec.Color, w.Labels = "secret-blue", map[string]string{"x": "y"} })
		Eventually(seen.all).Should(ContainElement("changed:update"))
		Expect(r.log.find("Handling", `"reason"="update"`, `"handlers"=["changed"]`, `"changed"=["metadata" "spec.color"]`)).To(HaveLen(1))
		Expect(r.log.find("secret-blue")).To(BeEmpty())
		Expect(r.log.find("Handling", `"reason"="create"`, `"changed"=[]`)).To(HaveLen(1))
		// The log lines of other kinds of handlers have the same fields.
		for _, id := range []string{"checks", "sync"} {
			Eventually(r.log.find).WithArguments(`"operator"=`, `"kind"="Widget"`, fmt.Sprintf("%q=%q", "namespace", ns), `"name"="a"`,
				fmt.Sprintf("%q=%q", "uid", a.UID), fmt.Sprintf("%q=%q", "handler", id), `"attempt"=`, `"took"=`).ShouldNot(BeEmpty())
		}
	}, SpecTimeout(minute))
})
