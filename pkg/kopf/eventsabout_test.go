package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// newEvent returns a Warning about an object that occurs now.
func newEvent(t *testing.T, name string, about client.Object) *corev1.Event {
	t.Helper()
	gvk, err := apiutil.GVKForObject(about, clientgoscheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID(),
		},
		Type: corev1.EventTypeWarning, Reason: "BackOff", Count: 1, LastTimestamp: metav1.Now(),
	}
}

// occurAgain increases the count of an Event.
func occurAgain(t *testing.T, cluster *kopftest.Cluster, event *corev1.Event) {
	t.Helper()
	kopftest.Edit(t, cluster, event, func(e *corev1.Event) { e.Count, e.LastTimestamp = e.Count+1, metav1.Now() })
}

func noteEvents(seen *steps) func(context.Context, *kopf.Request[configMap], *corev1.Event) error {
	return func(_ context.Context, req *kopf.Request[configMap], event *corev1.Event) error {
		seen.add(fmt.Sprintf("%s %s %d#%d", req.Object.Name, event.Name, event.Count, req.Attempt.Number))
		return nil
	}
}

func TestOnEventAbout_LimitsTheCallsForARepeatedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{}, noteEvents(seen)))
		operator.RunUntilQuiet(t)
		one := newConfigMap("one")
		cluster.Get(t, one)
		event := newEvent(t, "repeated", one)
		cluster.Create(t, event)
		const occurrences = 600
		for range occurrences { // for ten minutes
			<-time.After(time.Second)
			occurAgain(t, cluster, event)
		}
		<-time.After(2 * clusterevents.DefaultInterval)
		all := seen.take()
		if len(all) < 10 || len(all) > 12 {
			t.Errorf("%d calls in ten minutes, want about one in each minute: %q", len(all), all)
		}
		if want := fmt.Sprintf("one repeated %d#0", occurrences+1); all[len(all)-1] != want {
			t.Errorf("last call %q, want %q", all[len(all)-1], want)
		}
		<-time.After(time.Hour)
		seen.expect(t, "an hour later")
	})
}

func TestOnEventAbout_FindsOwnersThroughDeclaredKinds(t *testing.T) {
	controlled := func(obj, owner client.Object, gvk string) {
		obj.SetNamespace("default")
		apiVersion, kind, _ := strings.Cut(gvk, " ")
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}})
	}
	for name, test := range map[string]struct {
		through []client.Object
		want    []string
	}{
		"all kinds":                     {[]client.Object{&appsv1.ReplicaSet{}, &appsv1.Deployment{}}, []string{"one event 1#0"}},
		"without the last kind":         {[]client.Object{&appsv1.ReplicaSet{}}, nil},
		"without kinds between the two": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
				one := newConfigMap("one")
				cluster.Get(t, one)
				deployment, set, pod := &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.Pod{}
				deployment.Name, set.Name, pod.Name = "deployment", "set", "pod"
				controlled(deployment, one, "v1 ConfigMap")
				cluster.Create(t, deployment)
				controlled(set, deployment, "apps/v1 Deployment")
				cluster.Create(t, set)
				controlled(pod, set, "apps/v1 ReplicaSet")
				cluster.Create(t, pod)
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen",
					clusterevents.Selector{About: []client.Object{&corev1.Pod{}}, Through: test.through}, noteEvents(seen)))
				operator.RunUntilQuiet(t)
				cluster.Create(t, newEvent(t, "event", pod))
				foreign := newEvent(t, "replaced", pod)
				foreign.InvolvedObject.UID = types.UID("of an earlier pod")
				cluster.Create(t, foreign)
				<-time.After(time.Minute)
				seen.expect(t, "after the Events", test.want...)
			})
		})
	}
}

func TestOnEventAbout_RepeatsAttemptsInMemory(t *testing.T) {
	for name, test := range map[string]struct {
		options []kopf.HandlerOption
		want    []string
	}{
		"by default, once": {nil, []string{"a#0", "b#0"}},
		"with Retries":     {[]kopf.HandlerOption{kopf.Retries(3)}, []string{"a#0", "a#1", "a#2", "b#0", "b#1", "b#2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{},
					func(_ context.Context, req *kopf.Request[configMap], event *corev1.Event) error {
						seen.add(fmt.Sprintf("%s#%d", event.Name, req.Attempt.Number))
						return errors.New("always")
					}, test.options...))
				operator.RunUntilQuiet(t)
				one := newConfigMap("one")
				cluster.Get(t, one)
				for _, name := range []string{"a", "b"} {
					cluster.Create(t, newEvent(t, name, one))
					<-time.After(time.Second)
				}
				<-time.After(10 * time.Minute)
				seen.expect(t, "after ten minutes", test.want...)
			})
		})
	}
}

// The times of Events have seconds, and the API server lists Events by name.
func TestOnEventAbout_SinceHandlesEachEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
		run := func(when string, want ...string) {
			t.Helper()
			operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{Since: time.Hour}, noteEvents(seen)))
			operator.RunUntilQuiet(t)
			<-time.After(time.Minute)
			seen.expect(t, when, want...)
			operator.Stop(t)
		}
		one := newConfigMap("one")
		cluster.Get(t, one)
		post := func(name string, at time.Time) {
			event := newEvent(t, name, one)
			event.LastTimestamp = metav1.NewTime(at)
			cluster.Create(t, event)
		}
		now := time.Now().Truncate(time.Second)
		post("b", now.Add(-time.Minute))
		post("c", now.Add(-time.Minute))
		run("two Events of the same second", "one b 1#0", "one c 1#0")
		run("after a restart")
		post("a", now.Add(-time.Minute))
		run("a third Event of this second", "one a 1#0")
		post("d", now)
		post("e", now.Add(-30*time.Second))
		run("a later Event that is listed first", "one e 1#0", "one d 1#0")
		run("after another restart")
		cluster.Get(t, one)
		event := newEvent(t, "d", one)
		cluster.Get(t, event)
		if got, want := one.Annotations["kopf-runtime.dev/events.seen"], now.UTC().Format(time.RFC3339Nano)+" "+string(event.UID)+"/1"; got != want {
			t.Errorf("annotation %q, want %q", got, want)
		}

		kopftest.Edit(t, cluster, one, func(obj configMap) {
			obj.Annotations["kopf-runtime.dev/events.seen"] = now.UTC().Format(time.RFC3339Nano)
		})
		run("with an annotation that has no uids")
	})
}

// The operator receives the Events about each kind from a watch of its own, so a later Event about one kind can arrive before an earlier one about another kind.
func TestOnEventAbout_SinceHandlesTheEventsAboutEachKind(t *testing.T) {
	for _, newerAbout := range []string{"pod", "owner"} {
		synctest.Test(t, func(t *testing.T) {
			cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
			one := newConfigMap("one")
			cluster.Get(t, one)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: one.Name, UID: one.UID},
			}}}
			cluster.Create(t, pod)
			newer, older := newEvent(t, "newer", pod), newEvent(t, "older", one)
			if newerAbout == "owner" {
				newer, older = newEvent(t, "newer", one), newEvent(t, "older", pod)
			}
			older.LastTimestamp, newer.LastTimestamp = metav1.NewTime(time.Now().Add(-time.Minute)), metav1.NewTime(time.Now().Add(-time.Second))
			cluster.Create(t, older)
			cluster.Create(t, newer)
			for _, want := range [][]string{{"one newer 1#0", "one older 1#0"}, nil} { // nothing after a restart
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen",
					clusterevents.Selector{Since: time.Hour, About: []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}}}, noteEvents(seen)))
				operator.RunUntilQuiet(t)
				<-time.After(time.Minute)
				if got := slices.Sorted(slices.Values(seen.take())); !slices.Equal(got, want) {
					t.Errorf("the newer Event is about the %s: calls %q, want %q", newerAbout, got, want)
				}
				operator.Stop(t)
			}
		})
	}
}

func TestOnEventAbout_IsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one", "watched", "yes")))
		var operator *kopf.Operator
		resource := kopf.For(&corev1.ConfigMap{}).
			OnEventAbout("idle", clusterevents.Selector{WarningsOnly: true, Reasons: []string{"A", "B"}}, noteEvents(&steps{})).
			OnEventAbout("pods", clusterevents.Selector{About: []client.Object{&corev1.Pod{}}}, noteEvents(&steps{}), kopf.Label("other")).
			OnEventAbout("both", clusterevents.Selector{About: []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}}}, noteEvents(&steps{})).
			OnEventAbout("fails", clusterevents.Selector{}, func(context.Context, *kopf.Request[configMap], *corev1.Event) error {
				return errors.New("always")
			}, kopf.Retries(3), kopf.Backoff(time.Hour))
		running := cluster.RunManager(t, func(mgr manager.Manager) error {
			operator = kopf.New(mgr, resource)
			return mgr.Add(operator)
		})
		running.RunUntilQuiet(t)
		one := newConfigMap("one")
		cluster.Get(t, one)
		cluster.Create(t, newEvent(t, "event", one))
		<-time.After(time.Minute)
		explanation, err := operator.Explain(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range explanation.Handlers {
			got = append(got, fmt.Sprintf("%s %s %s: %s", h.Kind, h.ID, h.State, h.Explain(explanation.Time)))
		}
		want := []string{
			"event-about idle active: it is called for Warning Events with the reason A or B about the object",
			`event-about pods filtered: metadata.labels["other"] does not match: there is no value, wanted Present`,
			"event-about both active: it is called for Events about the object or objects of the kind Pod that belong to it",
			"event-about fails waiting: 1 Events wait for it; next in 59m0s; last error: always",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestOnEventAbout_RejectsInvalidDeclarations(t *testing.T) {
	ignore := func(context.Context, *kopf.Request[configMap], *corev1.Event) error { return nil }
	for name, test := range map[string]struct {
		resource *kopf.Resource[configMap]
		want     string
	}{
		"no function": {kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{}, nil), "the handler is nil: pass a function"},
		"nil kind": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{About: []client.Object{nil}}, ignore),
			"About has a nil object: use an empty object of the kind",
		},
		"unknown kind": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{About: []client.Object{&thing{}}}, ignore),
			"About(*kopf_test.thing): the kind is not registered in the manager's scheme",
		},
		"Through alone": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{Through: []client.Object{&corev1.Pod{}}}, ignore),
			"the selector has Through without About",
		},
		"empty reason": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{Reasons: []string{""}}, ignore), "one of the Reasons is empty",
		},
		"negative Since": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{Since: -time.Second}, ignore), "Since must not be negative, got -1s",
		},
		"no unit": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{Interval: 5}, ignore), "Interval is 5ns",
		},
		"WriteChanges": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{}, ignore, kopf.WriteChanges()), "WriteChanges has no effect on OnEventAbout handlers",
		},
		"Backoff without Retries": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{}, ignore, kopf.Backoff(time.Second)),
			"because OnEventAbout handlers are called once: add Retries",
		},
		"Interval": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{}, ignore, kopf.Interval(time.Minute)),
			"Interval has no effect on OnEventAbout handlers",
		},
		"related kinds": {
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("x", clusterevents.Selector{}, ignore).Owns(&corev1.Secret{}),
			"Owns has no effect without an OnReconcile handler",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := kopf.New(offline{scheme: clientgoscheme.Scheme}, test.resource).CheckDeclaration()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// ownedPods creates pods that an object owns, with one Event about each. The Events occur one after the other.
func ownedPods(t *testing.T, cluster *kopftest.Cluster, owner client.Object, names ...string) {
	t.Helper()
	for i, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID()},
		}}}
		cluster.Create(t, pod)
		event := newEvent(t, name, pod)
		event.LastTimestamp = metav1.NewTime(time.Now().Add(time.Duration(i-len(names)) * time.Second))
		cluster.Create(t, event)
	}
}

// interceptPods changes the reads of some pods.
func interceptPods(cluster *kopftest.Cluster, then interception, names ...string) *interceptor {
	return intercept(cluster, func(r *http.Request) interception {
		if slices.Contains(names, strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/default/pods/")) {
			return then
		}
		return interception{}
	})
}

var eventsOfPods = clusterevents.Selector{Since: time.Hour, About: []client.Object{&corev1.Pod{}}}

func TestOnEventAbout_SinceHandlesTheEventsInOrderIfAnOwnerCannotBeRead(t *testing.T) {
	for name, stops := range map[string]bool{"one process": false, "a restart during the fault": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
				one := newConfigMap("one")
				cluster.Get(t, one)
				ownedPods(t, cluster, one, "first", "second")
				requests := interceptPods(cluster, interception{code: http.StatusInternalServerError}, "first")
				resource := kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", eventsOfPods, noteEvents(seen))
				operator := cluster.Run(t, resource)
				<-time.After(5 * time.Second)
				seen.expect(t, "during the fault")
				if stops {
					operator.Stop(t)
					cluster.Run(t, resource)
				}
				requests.stop()
				<-time.After(time.Minute)
				seen.expect(t, "after the fault", "one first 1#0", "one second 1#0")
			})
		})
	}
}

// Events about a pod that cannot be read for a long time do not delay all later Events, and Events about a pod that may not be read delay none.
func TestOnEventAbout_SinceHandlesLaterEventsDuringAPermanentFault(t *testing.T) {
	for code, delay := range map[int]time.Duration{http.StatusInternalServerError: 30 * time.Second, http.StatusForbidden: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
			one := newConfigMap("one")
			cluster.Get(t, one)
			ownedPods(t, cluster, one, "bad-1", "good-1", "bad-2", "good-2")
			interceptPods(cluster, interception{code: code}, "bad-1", "bad-2")
			cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", eventsOfPods, noteEvents(seen)))
			<-time.After(delay)
			seen.expect(t, fmt.Sprintf("%s after the start, with code %d", delay, code), "one good-1 1#0", "one good-2 1#0")
		})
	}
}

// The cache can receive the object between the deliveries of two Events.
func TestOnEventAbout_SinceWaitsForTheCache(t *testing.T) {
	for name, options := range map[string][]kopf.Option{"all namespaces": nil, "WithNamespaces": {kopf.WithNamespaces("default")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newNamespace("default"), newConfigMap("one"))), &steps{}
				one := newConfigMap("one")
				cluster.Get(t, one)
				var names, want []string
				for i := range 20 {
					names = append(names, fmt.Sprintf("pod-%02d", i))
					want = append(want, fmt.Sprintf("one pod-%02d 1#0", i))
				}
				ownedPods(t, cluster, one, names...)
				intercept(cluster, func(r *http.Request) interception {
					switch {
					case strings.HasSuffix(r.URL.Path, "/configmaps"):
						return interception{delay: 1050 * time.Millisecond}
					case strings.Contains(r.URL.Path, "/pods/"):
						return interception{delay: 100 * time.Millisecond}
					}
					return interception{}
				})
				cluster.Run(t, append(options, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", eventsOfPods, noteEvents(seen)))...)
				<-time.After(time.Minute)
				seen.expect(t, "after the start", want...)
			})
		})
	}
}

// A waiting Event that occurs again does not precede the Events that wait after it.
func TestOnEventAbout_SinceKeepsTheOrderOfRecurringEvents(t *testing.T) {
	for name, wait := range map[string]func(t *testing.T, cluster *kopftest.Cluster) (end func()){
		"while its object cannot be read": func(_ *testing.T, cluster *kopftest.Cluster) func() {
			return interceptPods(cluster, interception{code: http.StatusInternalServerError}, "first").stop
		},
		"while the object is paused": func(t *testing.T, cluster *kopftest.Cluster) func() {
			kopftest.Edit(t, cluster, newConfigMap("one"), func(o *corev1.ConfigMap) { o.Annotations = map[string]string{"kopf-runtime.dev/paused": "true"} })
			return func() {
				kopftest.Edit(t, cluster, newConfigMap("one"), func(o *corev1.ConfigMap) { o.Annotations = nil })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
				one := newConfigMap("one")
				cluster.Get(t, one)
				ownedPods(t, cluster, one, "first", "second", "third")
				end := wait(t, cluster)
				cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", eventsOfPods, noteEvents(seen)))
				<-time.After(5 * time.Second)
				seen.expect(t, "before the end")
				first := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"}}
				cluster.Get(t, first)
				occurAgain(t, cluster, first)
				<-time.After(time.Second)
				end()
				<-time.After(5 * time.Minute)
				seen.expect(t, "after the end", "one first 1#0", "one second 1#0", "one third 1#0", "one first 2#0")
			})
		})
	}
}

// A repeated occurrence waits for the end of its interval, while the operator handles later Events of the same object.
func TestOnEventAbout_SinceHandlesWaitingOccurrencesAfterARestart(t *testing.T) {
	type handler = func(context.Context, *kopf.Request[configMap], *corev1.Event) error
	handlesOnlyTheSecondAttemptForSecond := func(seen *steps) handler {
		return func(ctx context.Context, req *kopf.Request[configMap], event *corev1.Event) error {
			if event.Name == "first" && event.Count > 1 || event.Name == "second" && req.Attempt.Number == 0 {
				return errors.New("not yet")
			}
			return noteEvents(seen)(ctx, req, event)
		}
	}
	for name, test := range map[string]struct {
		handler func(*steps) handler
		post    func(post func(name string), again func(name string))
		want    [][]string // the calls before the restart, and after the first, the second and the third restart
	}{
		"a later Event": {noteEvents, func(post, again func(string)) {
			post("first")
			<-time.After(10 * time.Second)
			again("first")
			<-time.After(10 * time.Second)
			post("second")
		}, [][]string{{"one first 1#0", "one second 1#0"}, {"one first 2#0"}}},
		"several Events": {noteEvents, func(post, again func(string)) {
			for _, call := range []func(string){post, again} {
				for _, name := range []string{"first", "second"} {
					call(name)
					<-time.After(time.Second)
				}
			}
			post("third")
			<-time.After(time.Second)
			again("first")
			<-time.After(time.Second)
			post("fourth")
		}, [][]string{{"one first 1#0", "one second 1#0", "one third 1#0", "one fourth 1#0"}, {"one second 2#0", "one first 3#0"}}},
		"the same second": {noteEvents, func(post, again func(string)) {
			post("first")
			<-time.After(time.Millisecond)
			again("first")
		}, [][]string{{"one first 1#0"}, {"one first 2#0"}}},
		"an occurrence whose interval has ended": {handlesOnlyTheSecondAttemptForSecond, func(post, again func(string)) {
			post("first")
			<-time.After(10 * time.Second)
			again("first")
			<-time.After(10 * time.Second)
			post("second")
			<-time.After(70 * time.Second)
		}, [][]string{{"one first 1#0", "one second 1#1"}, {"one first 2#0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
				one := newConfigMap("one")
				cluster.Get(t, one)
				about := func(fn handler) kopf.Option {
					return kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{Since: time.Hour}, fn, kopf.Retries(10))
				}
				operator := cluster.Run(t, about(test.handler(seen)))
				operator.RunUntilQuiet(t)
				test.post(func(name string) { cluster.Create(t, newEvent(t, name, one)) }, func(name string) { occurAgain(t, cluster, newEvent(t, name, one)) })
				<-time.After(time.Second)
				seen.expect(t, "before the restart", test.want[0]...)
				operator.Stop(t)
				for i, want := range append(test.want[1:], nil, nil) {
					operator := cluster.Run(t, about(noteEvents(seen)))
					<-time.After(5 * time.Second)
					seen.expect(t, fmt.Sprintf("after restart %d", i+1), want...)
					operator.Stop(t)
				}
			})
		})
	}
}

// stateOf returns the state of an Event with a count, seconds after an arbitrary time.
func stateOf(uid types.UID, seconds int64, count int32) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{UID: uid}, Count: count, LastTimestamp: metav1.NewTime(time.Unix(seconds, 0))}
}

// Many users may create Events with any time, and some may write the annotation. This must not make the operator ignore Events.
func TestOnEventAbout_SinceIgnoresTimesInTheFarFuture(t *testing.T) {
	now := time.Unix(100, 0)
	for at, want := range map[string]bool{"1970-01-01T01:01:40Z": true, "1970-01-01T01:01:41Z": false, "2999-01-01T00:00:00Z": false} {
		if got := kopf.IsHandledAt(at, stateOf("old", 50, 1), now); got != want {
			t.Errorf("with the time %s, an Event counts as handled: %t, want %t", at, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
		one := newConfigMap("one")
		cluster.Get(t, one)
		start := func() *kopftest.Operator {
			operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{Since: time.Hour}, noteEvents(seen)))
			operator.RunUntilQuiet(t)
			return operator
		}
		operator := start()
		forged := newEvent(t, "forged", one)
		forged.LastTimestamp = metav1.NewTime(time.Now().AddDate(999, 0, 0))
		cluster.Create(t, forged)
		<-time.After(5 * time.Second)
		operator.Stop(t)
		cluster.Create(t, newEvent(t, "during-the-downtime", one))
		operator = start()
		<-time.After(5 * time.Second)
		operator.Stop(t)
		calls := seen.take()
		if !slices.ContainsFunc(calls, func(call string) bool { return strings.Contains(call, "during-the-downtime") }) {
			t.Errorf("calls = %q, want one for the Event from the downtime", calls)
		}
	})
}

func TestHandledEvents_Contains(t *testing.T) {
	const annotation = "1970-01-01T00:00:20Z new/2 any 100/3 waiting/0"
	for name, test := range map[string]struct {
		event *corev1.Event
		want  bool
	}{
		"before the time":        {stateOf("other", 19, 1), true},
		"at the time":            {stateOf("other", 20, 1), false},
		"after the time":         {stateOf("new", 21, 2), false},
		"with its count":         {stateOf("new", 20, 2), true},
		"with a greater count":   {stateOf("new", 20, 3), false},
		"without a stored count": {stateOf("any", 20, 1000), true},
		"waiting":                {stateOf("waiting", 10, 1), false},
		"a numeric uid":          {stateOf("100", 20, 3), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kopf.IsHandled(annotation, test.event); got != test.want {
				t.Errorf("contains = %t, want %t", got, test.want)
			}
		})
	}
	for _, annotation := range []string{"", "invalid new/2"} {
		if kopf.IsHandled(annotation, stateOf("new", 20, 1)) {
			t.Errorf("an Event is handled according to %q", annotation)
		}
	}
}

func TestHandledEvents_With(t *testing.T) {
	const before = "1970-01-01T00:00:20Z new/1 waiting/0"
	var many []*corev1.Event
	for i := range 100 {
		many = append(many, stateOf(types.UID(fmt.Sprint(i)), 21, 2))
	}
	for name, test := range map[string]struct {
		event   *corev1.Event
		waiting []*corev1.Event
		want    string
	}{
		"a later Event":                        {stateOf("last", 30, 1), nil, "1970-01-01T00:00:30Z last/1"},
		"while Events wait":                    {stateOf("last", 30, 1), []*corev1.Event{stateOf("waiting", 10, 2), stateOf("a", 30, 2), stateOf("b", 31, 2)}, "1970-01-01T00:00:30Z last/1 waiting/0 a/0"},
		"while handled Events wait":            {stateOf("last", 30, 1), []*corev1.Event{stateOf("new", 20, 1), stateOf("old", 10, 1)}, "1970-01-01T00:00:30Z last/1"},
		"while its own state waits":            {stateOf("last", 30, 1), []*corev1.Event{stateOf("last", 30, 1)}, "1970-01-01T00:00:30Z last/1"},
		"while a newer state waits":            {stateOf("last", 30, 1), []*corev1.Event{stateOf("last", 30, 2)}, "1970-01-01T00:00:30Z last/0"},
		"an Event of the same time":            {stateOf("last", 20, 3), nil, "1970-01-01T00:00:20Z new/1 waiting/0 last/3"},
		"a state of the same time":             {stateOf("new", 20, 3), nil, "1970-01-01T00:00:20Z waiting/0 new/3"},
		"the waiting Event":                    {stateOf("waiting", 10, 2), nil, "1970-01-01T00:00:20Z new/1"},
		"the waiting Event, and it waits anew": {stateOf("waiting", 10, 2), []*corev1.Event{stateOf("waiting", 15, 3)}, "1970-01-01T00:00:20Z new/1 waiting/0"},
		"while too many Events wait":           {stateOf("last", 30, 1), many, before},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kopf.WithHandled(before, test.event, test.waiting...); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// The pod has an owner that was deleted, and one that the operator observes later.
func TestOnEventAbout_CallsTheHandlerOnceIfAnotherOwnerIsNotObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one", "watched", "yes"), newConfigMap("late"))), &steps{}
		one, late := newConfigMap("one"), newConfigMap("late")
		cluster.Get(t, one)
		cluster.Get(t, late)
		operator := cluster.Run(t, kopf.WithWatchSelector("watched"),
			kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{About: []client.Object{&corev1.Pod{}}}, noteEvents(seen)))
		operator.RunUntilQuiet(t)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}}
		for name, uid := range map[string]types.UID{"deleted": "of a deleted object", one.Name: one.UID, late.Name: late.UID} {
			pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid})
		}
		cluster.Create(t, pod)
		event := newEvent(t, "event", pod)
		cluster.Create(t, event)
		<-time.After(time.Second)
		kopftest.Edit(t, cluster, late, func(obj configMap) { obj.Labels = map[string]string{"watched": "yes"} })
		<-time.After(30 * time.Second)
		seen.expect(t, "after all repeated deliveries", "one event 1#0", "late event 1#0")
		occurAgain(t, cluster, event)
		<-time.After(5 * time.Minute)
		got := seen.take()
		slices.Sort(got)
		if want := []string{"late event 2#0", "one event 2#0"}; !slices.Equal(got, want) {
			t.Errorf("after another occurrence: calls %q, want %q", got, want)
		}
	})
}
