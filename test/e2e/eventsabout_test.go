package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// An eventOption changes an Event before it is posted.
type eventOption func(*corev1.Event)

func normal(event *corev1.Event) { event.Type = corev1.EventTypeNormal }

func reportedBy(controller string) eventOption {
	return func(event *corev1.Event) { event.ReportingController, event.ReportingInstance = controller, controller }
}

// occurred sets the time at which the Event has occurred.
func occurred(at time.Time) eventOption {
	return func(event *corev1.Event) {
		event.FirstTimestamp, event.LastTimestamp = metav1.NewTime(at), metav1.NewTime(at)
	}
}

// postEvent posts a Warning about an object, as the kubelet does.
func postEvent(ctx context.Context, about client.Object, reason string, opts ...eventOption) *corev1.Event {
	GinkgoHelper()
	gvk, err := apiutil.GVKForObject(about, scheme)
	Expect(err).NotTo(HaveOccurred())
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: about.GetNamespace(), GenerateName: about.GetName() + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID(),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: reason, Count: 1, FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "kubelet"},
	}
	for _, opt := range opts {
		opt(event)
	}
	create(ctx, event)
	return event
}

// repeat increases the count of an Event.
func repeat(ctx context.Context, event *corev1.Event, times int) {
	GinkgoHelper()
	for range times {
		edit(ctx, event, func(e *corev1.Event) { e.Count, e.LastTimestamp = e.Count+1, metav1.Now() })
	}
}

// ownedBy returns a reference to an owner.
func ownedBy(owner client.Object) []metav1.OwnerReference {
	GinkgoHelper()
	gvk, err := apiutil.GVKForObject(owner, scheme)
	Expect(err).NotTo(HaveOccurred())
	return []metav1.OwnerReference{*metav1.NewControllerRef(owner, gvk)}
}

func podOf(ns, name string, owner client.Object) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: ownedBy(owner)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}},
	}
}

// deploymentOf creates a deployment of an object with its replica set, and returns the replica set.
func deploymentOf(ctx context.Context, owner client.Object) *appsv1.ReplicaSet {
	GinkgoHelper()
	labels := map[string]string{"app": owner.GetName()}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}},
	}
	meta := metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: owner.GetName(), OwnerReferences: ownedBy(owner)}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	create(ctx, deployment)
	meta.OwnerReferences = ownedBy(deployment)
	set := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	create(ctx, set)
	return set
}

// watchingEvents waits until the operator watches Events.
func watchingEvents(r *running) {
	GinkgoHelper()
	Eventually(func() []string { return r.log.find("Watching Events") }).ShouldNot(BeEmpty())
}

var _ = Describe("Handlers for Kubernetes Events", func() {
	type W = *v1.Widget

	record := func(seen *calls) func(context.Context, *kopf.Request[W], *corev1.Event) error {
		return func(_ context.Context, req *kopf.Request[W], event *corev1.Event) error {
			seen.notef("%s %s %d", req.Object.Name, event.Reason, event.Count)
			return nil
		}
	}
	about := func(seen *calls, events clusterevents.Selector, opts ...kopf.HandlerOption) *kopf.Resource[W] {
		return kopf.For(&v1.Widget{}).OnEventAbout("seen", events, record(seen), opts...)
	}
	ofPods := func(reasons ...string) clusterevents.Selector {
		return clusterevents.Selector{
			About: []client.Object{&corev1.Pod{}}, Through: []client.Object{&appsv1.ReplicaSet{}, &appsv1.Deployment{}}, Reasons: reasons,
		}
	}

	It("are called for new Events about the object, and their changes are written", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		create(ctx, one)
		postEvent(ctx, one, "Before")
		resource := about(seen, clusterevents.Selector{}).
			OnEventAbout("write", clusterevents.Selector{Reasons: []string{"Broken"}}, func(_ context.Context, req *kopf.Request[W], event *corev1.Event) error {
				Expect(req.Reason).To(Equal(kopf.ReasonEventAbout))
				req.Object.Status.Phase, req.Object.Spec.Color = event.Message, "grey"
				return nil
			}).
			OnUpdate("updated", ok[W](seen, "updated"))
		op := start(ns, options(resource))
		handled(ctx, one)
		Eventually(func() []string { return op.log.find("Watching Events") }).Should(HaveLen(2))
		postEvent(ctx, one, "Broken")
		Eventually(seen.all).Should(Equal([]string{"one Broken 1"}))
		Eventually(fresh(ctx, one)).Should(And(HaveField("Status.Phase", "Broken"), HaveField("Spec.Color", "grey")))
		Consistently(seen.all, quietTime).Should(HaveLen(1), "the change of the handler is not an update")
		Expect(fresh(ctx, one)()).NotTo(HaveField("ObjectMeta.Annotations", HaveKey(ContainSubstring("/events."))))
	}, SpecTimeout(minute))

	It("are called for Events about a pod of a deployment of the object, with filters on the server", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &readRecorder{}
		one := widget(ns, "one")
		create(ctx, one)
		set := deploymentOf(ctx, one)
		pod, foreign := podOf(ns, "pod", set), podOf(ns, "foreign", set)
		foreign.OwnerReferences = nil
		create(ctx, pod)
		create(ctx, foreign)
		op := start(ns, options(about(seen, ofPods("FailedScheduling"))), wire.setup())
		watchingEvents(op)
		postEvent(ctx, foreign, "FailedScheduling")
		postEvent(ctx, one, "FailedScheduling")
		postEvent(ctx, pod, "Other")
		deleted := podOf(ns, "deleted", set)
		deleted.UID = "0"
		postEvent(ctx, deleted, "FailedScheduling")
		postEvent(ctx, pod, "FailedScheduling")
		Eventually(seen.all).Should(Equal([]string{"one FailedScheduling 1"}))
		Consistently(seen.all, quietTime).Should(HaveLen(1))
		Expect(op.log.find("no longer exists", "deleted")).NotTo(BeEmpty())
		ofEvents := func(u *url.URL) bool { return strings.HasSuffix(u.Path, "/events") }
		requests := wire.requests(ofEvents)
		Expect(requests).NotTo(BeEmpty())
		lists := slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return strings.Contains(r, "watch=") })
		Expect(lists).To(HaveEach(ContainSubstring("limit=1")), "the operator must not list all Events")
		selector := url.QueryEscape("involvedObject.kind=Pod,reason=FailedScheduling,reportingComponent!=kopf-runtime")
		for _, request := range requests {
			if strings.Contains(request, "watch=") {
				Expect(request).To(And(ContainSubstring("/namespaces/"+ns+"/"), ContainSubstring(selector)))
			}
		}
		Expect(wire.requests(func(u *url.URL) bool { return strings.Contains(u.Path, "/pods/pod") })).To(HaveLen(1))
	}, SpecTimeout(minute))

	It("receive only Warnings, and no Events of this library, unless they are declared", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		create(ctx, one)
		resource := kopf.For(&v1.Widget{}).
			OnEventAbout("warnings", clusterevents.Selector{WarningsOnly: true}, func(_ context.Context, req *kopf.Request[W], event *corev1.Event) error {
				seen.notef("warnings %s", event.Reason)
				req.Eventf(corev1.EventTypeWarning, "Noticed", "Notice", "an Event about the object")
				return nil
			}).
			OnEventAbout("own", clusterevents.Selector{OwnEvents: true, Reasons: []string{"Noticed"}}, func(_ context.Context, _ *kopf.Request[W], event *corev1.Event) error {
				seen.notef("own %s", event.Reason)
				return nil
			})
		op := start(ns, options(resource))
		Eventually(func() []string { return op.log.find("Watching Events") }).Should(HaveLen(2))
		postEvent(ctx, one, "Fine", normal)
		postEvent(ctx, one, "Posted", reportedBy("kopf-runtime"))
		postEvent(ctx, one, "Broken", reportedBy("kubelet"))
		Eventually(seen.all).Should(Equal([]string{"warnings Broken", "own Noticed"}))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("are called few times for an Event that occurs a hundred times, and see its last count", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		create(ctx, one)
		op := start(ns, options(about(seen, clusterevents.Selector{Interval: 2 * time.Second})))
		watchingEvents(op)
		event := postEvent(ctx, one, "BackOff")
		Eventually(seen.all).Should(HaveLen(1))
		began := time.Now()
		repeat(ctx, event, 99)
		Eventually(seen.all, 10*time.Second).Should(ContainElement("one BackOff 100"))
		Expect(len(seen.all())).To(BeNumerically("<=", 2+int(time.Since(began)/(2*time.Second))))
		AddReportEntry("series", fmt.Sprintf("%d calls for 100 occurrences in %s", len(seen.all()), time.Since(began)))
		edit(ctx, event, func(e *corev1.Event) { e.Labels = map[string]string{"a": "b"} })
		before := len(seen.all())
		Consistently(seen.all, 3*time.Second).Should(HaveLen(before), "the Event has not occurred again")
	}, SpecTimeout(minute))

	It("repeat attempts according to their policy, in the order of the Events", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		create(ctx, one)
		resource := kopf.For(&v1.Widget{}).
			OnEventAbout("retried", clusterevents.Selector{}, func(_ context.Context, req *kopf.Request[W], event *corev1.Event) error {
				seen.notef("%s#%d", event.Reason, req.Attempt.Number)
				if event.Reason == "First" && req.Attempt.Number < 2 {
					return errors.New("not yet")
				}
				return nil
			}, kopf.Retries(3), kopf.Backoff(500*millisecond))
		op := start(ns, options(resource))
		watchingEvents(op)
		postEvent(ctx, one, "First")
		Eventually(seen.all).Should(HaveLen(1))
		postEvent(ctx, one, "Second")
		Eventually(seen.all).Should(Equal([]string{"First#0", "First#1", "First#2", "Second#0"}))
		Consistently(seen.all, quietTime).Should(HaveLen(4))
	}, SpecTimeout(minute))

	It("are not called again after a restart for Events that were handled; Since selects those that were posted in between", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		create(ctx, one)
		postEvent(ctx, one, "Old", occurred(time.Now().Add(-time.Hour)))
		postEvent(ctx, one, "Young", occurred(time.Now().Add(-10*time.Second)))
		recent := clusterevents.Selector{Since: 5 * time.Minute}
		op := start(ns, options(about(seen, recent)))
		watchingEvents(op)
		Eventually(seen.all).Should(Equal([]string{"one Young 1"}))
		postEvent(ctx, one, "Running", occurred(time.Now()))
		Eventually(seen.all).Should(Equal([]string{"one Young 1", "one Running 1"}))
		Eventually(fresh(ctx, one)).Should(HaveField("ObjectMeta.Annotations", HaveKey("kopf-runtime.dev/events.seen")))
		op.stop()
		seen.clear()
		postEvent(ctx, one, "Stopped", occurred(time.Now().Add(2*time.Second))) // the times of Events have seconds
		watchingEvents(start(ns, options(about(seen, recent))))
		Eventually(seen.all).Should(Equal([]string{"one Stopped 1"}))
		Consistently(seen.all, quietTime).Should(HaveLen(1))
	}, SpecTimeout(minute))

	It("are not called during a pause of the object, and not afterwards for its Events", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		one.Annotations = map[string]string{kopf.PausedAnnotation: "true"}
		create(ctx, one)
		op := start(ns, options(about(seen, clusterevents.Selector{})))
		watchingEvents(op)
		working(op)
		postEvent(ctx, one, "Paused")
		Consistently(seen.all, quietTime).Should(BeEmpty())
		edit(ctx, one, func(w W) { delete(w.Annotations, kopf.PausedAnnotation) })
		Eventually(func() []string {
			return op.log.find("Ignored an Event from the time before the start, or from a pause")
		}).ShouldNot(BeEmpty())
		postEvent(ctx, one, "Resumed")
		Eventually(seen.all).Should(Equal([]string{"one Resumed 1"}))
	}, SpecTimeout(minute))

	It("are not called while another operator has precedence, and not afterwards for the Events of this time", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		other := newLaptop(ctx, ns)
		one := widget(ns, "one")
		create(ctx, one)
		other.join(ctx)
		op := start(ns, options(about(seen, clusterevents.Selector{}), kopf.WithPeering(peering.Options{Namespaces: []string{ns}, Mandatory: true})))
		watchingEvents(op)
		Eventually(func() []string { return op.log.find("The object will be handled later") }).ShouldNot(BeEmpty())
		postEvent(ctx, one, "Paused")
		Consistently(seen.all, quietTime).Should(BeEmpty())
		other.leave(ctx)
		Eventually(func() []string {
			return op.log.find("Ignored an Event from the time before the start, or from a pause")
		}).ShouldNot(BeEmpty())
		postEvent(ctx, one, "Resumed")
		Eventually(seen.all).Should(Equal([]string{"one Resumed 1"}))
	}, SpecTimeout(minute))

	It("receive no Event twice, and all of them, if the watch ends and its version has expired", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		one := widget(ns, "one")
		create(ctx, one)
		watches := 0
		wire := &readRecorder{respond: func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/events") && req.URL.Query().Get("watch") != "" {
				if watches++; watches == 2 {
					postEvent(ctx, one, "Gap")
					return errorResponse(req, apierrors.NewResourceExpired("injected"), nil)
				}
				query := req.URL.Query()
				query.Set("timeoutSeconds", "2")
				req.URL.RawQuery = query.Encode()
			}
			return nil, nil
		}}
		op := start(ns, options(about(seen, clusterevents.Selector{})), wire.setup())
		watchingEvents(op)
		postEvent(ctx, one, "First")
		Eventually(seen.all).Should(Equal([]string{"one First 1"}))
		Eventually(seen.all, 20*time.Second).Should(Equal([]string{"one First 1", "one Gap 1"}))
		postEvent(ctx, one, "Last")
		Eventually(seen.all, 20*time.Second).Should(Equal([]string{"one First 1", "one Gap 1", "one Last 1"}))
	}, SpecTimeout(minute))

	It("need permissions, which the operator names at the start, and which are sufficient", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := about(seen, ofPods())
		role := rolesOf(ns, resource)[0]
		complete := role.DeepCopy()
		for i := range role.Rules {
			if slices.Contains(role.Rules[i].Resources, "events") && slices.Contains(role.Rules[i].APIGroups, "") {
				role.Rules[i].Verbs = []string{"list"}
			}
		}
		Expect(role).NotTo(Equal(complete))
		grant(ctx, ns, role)
		mgr := newManager(ns, &logRecorder{}, as(ns))
		Expect(mgr.Add(kopf.New(mgr, resource))).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(And(ContainSubstring("watch events"), ContainSubstring("OnEventAbout of Widget"))))
		edit(ctx, role, func(r *rbacv1.Role) { r.Rules = complete.Rules })
		awaitRights(ctx, ns, ns, complete.Rules...)
		op := start(ns, options(resource), as(ns))
		watchingEvents(op)
		one := widget(ns, "one")
		create(ctx, one)
		pod := podOf(ns, "pod", deploymentOf(ctx, one))
		create(ctx, pod)
		postEvent(ctx, pod, "BackOff")
		Eventually(seen.all).Should(Equal([]string{"one BackOff 1"}))
		Expect(op.log.find("forbidden")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("make the operator unready while it may not list or watch Events", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		resource := about(seen, clusterevents.Selector{})
		role := rolesOf(ns, resource)[0]
		complete := role.DeepCopy()
		for i := range role.Rules {
			if slices.Contains(role.Rules[i].Resources, "events") && slices.Contains(role.Rules[i].APIGroups, "") {
				role.Rules[i].Verbs = []string{"list"}
			}
		}
		grant(ctx, ns, role)
		awaitRights(ctx, ns, ns, role.Rules...)
		logs := &logRecorder{}
		mgr := newManager(ns, logs, as(ns))
		op := kopf.New(mgr, options(resource, kopf.WithRightsCheck(rights.Warn))...)
		Expect(mgr.Add(op)).To(Succeed())
		launch(mgr, logs)
		Eventually(func() error { return op.Readyz(nil) }).Should(MatchError(And(
			ContainSubstring("Event: the operator has not been allowed to watch objects in namespace %q", ns), ContainSubstring(`cannot watch resource "events"`))))
		edit(ctx, role, func(r *rbacv1.Role) { r.Rules = complete.Rules })
		Eventually(func() error { return op.Readyz(nil) }).WithTimeout(minute).Should(Succeed())
		one := widget(ns, "one")
		create(ctx, one)
		postEvent(ctx, one, "BackOff")
		Eventually(seen.all).Should(Equal([]string{"one BackOff 1"}))
	}, SpecTimeout(minute))

	It("are called in all namespaces of the operator, also in those that are created later", func(ctx context.Context) {
		base, seen := newNamespace(ctx), &calls{}
		namespace := func(name string) {
			create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		namespace(base + "-one")
		logs := &logRecorder{}
		launchOperator(logs, options(kopf.WithNamespaces(base+"-*"), about(seen, clusterevents.Selector{})))
		watching := func(namespace string) func() []string {
			return func() []string { return logs.find("Watching Events", namespace) }
		}
		Eventually(watching(base + "-one")).ShouldNot(BeEmpty())
		namespace(base + "-two")
		Eventually(watching(base + "-two")).ShouldNot(BeEmpty())
		one, two, other := widget(base+"-one", "one"), widget(base+"-two", "two"), widget(base, "other")
		for _, obj := range []W{one, two, other} {
			create(ctx, obj)
			postEvent(ctx, obj, "Here")
		}
		Eventually(seen.all).Should(ConsistOf("one Here 1", "two Here 1"))
		Consistently(seen.all, quietTime).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("receive Events about objects that the operator observes a moment later", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		op := start(ns, options(about(seen, clusterevents.Selector{}, kopf.Label("watched"))))
		watchingEvents(op)
		unborn := widget(ns, "later")
		unborn.Labels = map[string]string{"watched": ""}
		postEvent(ctx, unborn, "Born") // an Event without a uid
		ignored := widget(ns, "ignored")
		create(ctx, ignored)
		postEvent(ctx, ignored, "Filtered")
		create(ctx, unborn)
		Eventually(seen.all).Should(Equal([]string{"later Born 1"}))
		Consistently(seen.all, quietTime).Should(HaveLen(1))
	}, SpecTimeout(minute))
})
