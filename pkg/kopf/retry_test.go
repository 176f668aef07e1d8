package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A retryWorld is an object whose handlers do what the test says.
type retryWorld struct {
	*testing.T
	*kopftest.Cluster
	log  texts
	do   map[string]error // what handlers return; nil without an entry
	obj  configMap
	stop func() error

	digestOnly bool
}

// onlyData rejects the events of requests.
var onlyData = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !maps.Equal(e.ObjectOld.(configMap).Data, e.ObjectNew.(configMap).Data)
}}

const retryPrefix = "kopf.zalando.org/"

func (w *retryWorld) handler(id string) kopf.Handler[configMap] {
	return func(_ context.Context, req *kopf.Request[configMap]) error {
		err := w.do[id]
		w.log.addf("%s:%s#%d", id, req.Reason, req.Attempt.Number)
		if req.Reason == kopf.ReasonUpdate && len(req.Diff) == 0 && !w.digestOnly && (req.Old == nil || req.Old.Data["a"] != req.Object.Data["a"]) {
			w.log.addf("without a change, Old is %v", req.Old)
		}
		return err
	}
}

func (w *retryWorld) run(options ...kopf.Option) {
	w.Helper()
	if w.stop != nil {
		if err := w.stop(); err != nil {
			w.Fatal(err)
		}
	}
	things := kopf.For(&corev1.ConfigMap{}, kopf.WithPredicates(onlyData), kopf.WithDigestOnly(w.digestOnly)).
		OnCreateOrUpdate("apply", w.handler("apply")).
		OnCreate("create", w.handler("create")).
		OnField("field", "data.a", w.handler("field")).
		OnResume("resume", w.handler("resume")).
		OnDelete("delete", w.handler("delete"), kopf.Backoff(time.Hour)).
		OnUpdate("other", w.handler("other"), kopf.Label("other", filter.Present)).
		Timer("timer", daemons.Timer{Interval: time.Hour}, func(context.Context, *kopf.Request[configMap]) error {
			w.log.addf("timer")
			return nil
		}, kopf.InitialDelay(100*time.Hour)).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[configMap]) error {
			<-ctx.Done()
			return nil
		})
	w.stop = runShard(w.T, w.Cluster, append([]kopf.Option{things}, options...)...)
}

// request asks for handlers' calls, as kubectl annotate does.
func (w *retryWorld) request(text string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, retryPrefix+"retry."+id, text))
	}
}

func (w *retryWorld) patch(text string) {
	w.Helper()
	if err := w.Client.Patch(w.Context(), w.obj.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// expect compares the handlers' calls of the last minute, and the requests and answers on the object.
func (w *retryWorld) expect(calls string, annotations ...string) {
	w.Helper()
	expectTexts(w.T, &w.log, calls)
	w.Get(w.T, w.obj)
	found := map[string]string{}
	for key, value := range w.obj.Annotations {
		if name, ours := strings.CutPrefix(key, retryPrefix); ours && strings.HasPrefix(name, "retr") {
			found[name] = value
		}
	}
	if len(found) != len(annotations)/2 {
		w.Errorf("annotations = %v, want %q", found, annotations)
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		if got := found[annotations[i]]; got != annotations[i+1] {
			w.Errorf("%s = %s, want %s", annotations[i], got, annotations[i+1])
		}
	}
}

func answer(request, outcome, message string) string {
	if message != "" {
		return fmt.Sprintf(`{"request":%q,"outcome":%q,"message":%q}`, request, outcome, message)
	}
	return fmt.Sprintf(`{"request":%q,"outcome":%q}`, request, outcome)
}

func retryTest(t *testing.T, test func(*retryWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
		metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
		w := &retryWorld{T: t, Cluster: kopftest.Memory(t, kopftest.Types(scheme)), do: map[string]error{}}
		w.obj = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"a": "1"}}
		test(w)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRetry_EndsADelay(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.do["apply"] = kopf.Temporary(errors.New("busy"), 12*time.Hour)
		w.run()
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, create:create#0, field:create#0")
		w.request("now", "apply")
		w.expect("apply:create#1", "retry.apply", "now", "retried.apply", answer("now", "retrying", "busy"))
		delete(w.do, "apply")
		w.request("again", "apply")
		w.expect("apply:create#2", "retried.apply", answer("again", "succeeded", ""))
		w.patch(`{"data":{"a":"2"}}`)
		w.expect("apply:update#0, field:update#0") // the end of the next cycle removes the answer
	})
}

func TestRetry_AfterTheCycle(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.do["apply"], w.do["create"] = kopf.Permanent(errors.New("invalid")), kopf.Permanent(errors.New("invalid"))
		w.run()
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, create:create#0, field:create#0")
		baseline := w.obj.Annotations[retryPrefix+"last-handled-configuration"]
		w.request("a", "apply", "create", "field.data.a", "resume")
		w.expect("apply:update#0, create:create#0, field:update#0, resume:resume#0",
			"retried.apply", answer("a", "failed", "invalid"), "retried.create", answer("a", "failed", "invalid"),
			"retried.field.data.a", answer("a", "succeeded", ""), "retried.resume", answer("a", "succeeded", ""))
		if after := w.obj.Annotations[retryPrefix+"last-handled-configuration"]; after != baseline {
			t.Errorf("the baseline was %s and is %s", baseline, after)
		}
		for key := range w.obj.Annotations {
			if strings.HasPrefix(key, retryPrefix+"apply") || strings.HasSuffix(key, "pinned-configuration") {
				t.Errorf("%s is left", key)
			}
		}
		delete(w.do, "apply")
		w.request("a", "apply") // the same text is a new request, because the first one was answered
		w.expect("apply:update#0",
			"retried.apply", answer("a", "succeeded", ""), "retried.create", answer("a", "failed", "invalid"),
			"retried.field.data.a", answer("a", "succeeded", ""), "retried.resume", answer("a", "succeeded", ""))
		w.expect("", "retried.apply", answer("a", "succeeded", ""), "retried.create", answer("a", "failed", "invalid"),
			"retried.field.data.a", answer("a", "succeeded", ""), "retried.resume", answer("a", "succeeded", ""))
	})
}

// A request survives a restart, edits of the object, and a pause; it can be withdrawn.
func TestRetry_IsKept(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.run()
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, create:create#0, field:create#0")
		w.do["create"] = kopf.Temporary(errors.New("busy"), 10*time.Minute)
		w.request("a", "create")
		waiting := []string{"retry.create", "a", "retried.create", answer("a", "retrying", "busy")}
		w.expect("create:create#0", waiting...)
		w.run()
		w.expect("resume:resume#0", waiting...) // the delay continues
		w.patch(`{"data":{"a":"2"}}`)
		w.expect("apply:update#0, field:update#0", waiting...)
		<-time.After(10 * time.Minute)
		w.expect("create:create#1", waiting...)
		w.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, kopf.PausedAnnotation))
		<-time.After(20 * time.Minute)
		w.request("b", "create")
		w.expect("", "retry.create", "b", "retried.create", answer("a", "retrying", "busy"))
		delete(w.do, "create")
		w.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, kopf.PausedAnnotation))
		w.expect("create:create#2", "retried.create", answer("b", "succeeded", ""))

		w.do["create"] = kopf.Temporary(errors.New("busy"), 10*time.Minute)
		w.request("c", "create")
		w.expect("create:create#0", "retry.create", "c", "retried.create", answer("c", "retrying", "busy"))
		w.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, retryPrefix+"retry.create"))
		<-time.After(time.Hour)
		w.expect("")
	})
}

// Nobody waits for a requested handler: an edit is handled at once, also with the handlers that were called on request before.
func TestRetry_EditsDoNotWait(t *testing.T) {
	for name, test := range map[string]struct{ withdraw, digestOnly bool }{
		"requested": {false, false}, "withdrawn": {true, false}, "requested, with digests": {false, true}, "withdrawn, with digests": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			retryTest(t, func(w *retryWorld) {
				w.digestOnly = test.digestOnly
				w.run()
				w.Create(w.T, w.obj)
				w.expect("apply:create#0, create:create#0, field:create#0")
				w.do["apply"] = kopf.Temporary(errors.New("busy"), 12*time.Hour)
				w.request("a", "apply", "field.data.a")
				busy := []string{"retry.apply", "a", "retried.apply", answer("a", "retrying", "busy"), "retried.field.data.a", answer("a", "succeeded", "")}
				w.expect("apply:update#0, field:update#0", busy...)
				if test.withdraw {
					w.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, retryPrefix+"retry.apply"))
					w.expect("", "retried.field.data.a", answer("a", "succeeded", ""))
					busy = busy[4:]
				}
				w.patch(`{"data":{"a":"2"}}`)
				w.expect("field:update#0", busy...) // the handler itself keeps its delay
				delete(w.do, "apply")
				<-time.After(12 * time.Hour)
				var done []string
				if !test.withdraw {
					done = []string{"retried.apply", answer("a", "succeeded", "")}
				}
				w.expect("apply:update#1", done...)
			})
		})
	}
}

// A request with a text that was used before is a new one, also if the first was withdrawn.
func TestRetry_TextAgain(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.do["apply"] = kopf.Temporary(errors.New("busy"), 12*time.Hour)
		w.run()
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, create:create#0, field:create#0")
		for i := range 3 {
			w.request("now", "apply")
			w.expect(fmt.Sprintf("apply:create#%d", i+1), "retry.apply", "now", "retried.apply", answer("now", "retrying", "busy"))
			w.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, retryPrefix+"retry.apply"))
			w.expect("")
		}
	})
}

// An answer isn't final until the API server has accepted the handler's changes.
func TestRetry_RejectedChange(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		label := "in valid"
		w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).
			OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
				w.log.addf("create#%d", req.Attempt.Number)
				if label != "" {
					metav1.SetMetaDataLabel(&req.Object.ObjectMeta, "a", label)
				}
				return nil
			}, kopf.Retries(2), kopf.Backoff(time.Hour)))
		label = ""
		w.Create(w.T, w.obj)
		w.expect("create#0")
		label = "in valid"
		w.request("a", "create")
		expectTexts(w.T, &w.log, "create#0")
		w.Get(w.T, w.obj)
		if got := w.obj.Annotations[retryPrefix+"retried.create"]; !strings.Contains(got, `"outcome":"retrying"`) || w.obj.Annotations[retryPrefix+"retry.create"] != "a" {
			t.Errorf("annotations = %v, want a request that is retrying", w.obj.Annotations)
		}
		label = "valid"
		<-time.After(time.Hour)
		w.expect("create#1", "retried.create", answer("a", "succeeded", ""))
	})
}

// A requested handler is not called if one before it has failed. That is answered once, without more writes.
func TestRetry_AfterFailed(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.do["a"], w.do["c"] = kopf.Permanent(errors.New("invalid")), kopf.Temporary(errors.New("busy"), 12*time.Hour)
		w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).
			OnCreate("a", w.handler("a")).
			OnCreate("b", w.handler("b"), kopf.After("a")).
			OnCreate("c", w.handler("c")))
		w.Create(w.T, w.obj)
		w.expect("a:create#0, c:create#0")
		w.request("now", "b")
		expectTexts(w.T, &w.log, "")
		w.Get(w.T, w.obj)
		if got := w.obj.Annotations[retryPrefix+"retried.b"]; !strings.Contains(got, `"outcome":"failed"`) {
			t.Errorf("retried.b = %s, want a failure", got)
		}
		before := w.obj.ResourceVersion
		<-time.After(time.Hour)
		w.Get(w.T, w.obj)
		if w.obj.ResourceVersion != before {
			t.Errorf("the object is written again and again: %s and %s", before, w.obj.ResourceVersion)
		}
	})
}

// An operator that only looks doesn't answer for others.
func TestRetry_OperatorThatOnlyLooks(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).OnEvent("look", func(context.Context, *kopf.Request[configMap]) error {
			return nil
		}))
		w.Create(w.T, w.obj)
		w.request("a", "provision")
		w.expect("", "retry.provision", "a")
	})
}

// Kopf recognizes the annotations of other prefixes only with a marker.
func TestRetry_MarksItsPrefix(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).
			Timer("timer", daemons.Timer{Interval: 24 * time.Hour}, func(context.Context, *kopf.Request[configMap]) error {
				w.log.addf("timer")
				return nil
			}), kopf.WithProgress(progress.Annotations("op.example.com")), kopf.WithBaseline(progress.AnnotationBaseline("op.example.com")))
		w.Create(w.T, w.obj)
		expectTexts(w.T, &w.log, "timer")
		w.patch(`{"metadata":{"annotations":{"op.example.com/retry.timer":"a"}}}`)
		expectTexts(w.T, &w.log, "timer")
		w.Get(w.T, w.obj)
		want := map[string]string{"op.example.com/retried.timer": answer("a", "called", ""), "op.example.com/kopf-managed": "yes"}
		if diff := cmp.Diff(want, w.obj.Annotations); diff != "" {
			t.Errorf("annotations differ (-want +got):\n%s", diff)
		}
	})
}

func TestRetry_Refused(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.run()
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, create:create#0, field:create#0")
		w.request("a", "unknown", "delete", "other", "timer", "daemon")
		w.expect("timer",
			"retried.unknown", answer("a", "refused", "there is no cause handler, daemon or timer with this id: use one that kopf why shows, and the parent of a sub-handler"),
			"retried.delete", answer("a", "refused", "the handler is only called for objects that are being deleted"),
			"retried.other", answer("a", "refused", "the handler's filters don't match the object"),
			"retried.timer", answer("a", "called", ""), "retried.daemon", answer("a", "refused", "it is running"))
		w.request("b", "timer")
		w.expect("timer",
			"retried.unknown", answer("a", "refused", "there is no cause handler, daemon or timer with this id: use one that kopf why shows, and the parent of a sub-handler"),
			"retried.delete", answer("a", "refused", "the handler is only called for objects that are being deleted"),
			"retried.other", answer("a", "refused", "the handler's filters don't match the object"),
			"retried.timer", answer("b", "called", ""), "retried.daemon", answer("a", "refused", "it is running"))
		w.do["delete"] = errors.New("not yet")
		if err := w.Client.Delete(w.Context(), w.obj.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		expectTexts(w.T, &w.log, "delete:delete#0")
		delete(w.do, "delete")
		w.request("b", "delete")
		expectTexts(w.T, &w.log, "delete:delete#1")
		if err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(w.obj), &corev1.ConfigMap{}); err == nil {
			t.Error("the object still exists")
		}
	})
}

// After a crash, a conflict or a lost response at any write, each request is answered, and nothing is left of it.
func TestRetry_Faults(t *testing.T) {
	for name, explore := range map[string]func(func() kopftest.Scenario){
		"check": func(s func() kopftest.Scenario) { kopftest.Check(t, s) },
		"explore": func(s func() kopftest.Scenario) {
			kopftest.Explore(t, s, kopftest.WithPairs(), kopftest.WithMaxPlans(150))
		},
	} {
		t.Run(name, func(*testing.T) {
			explore(func() kopftest.Scenario {
				obj, attempts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"a": "1"}}, 0
				annotate := func(id, text string) func(testing.TB, *kopftest.Cluster) {
					return func(t testing.TB, c *kopftest.Cluster) {
						kopftest.Edit(t, c, obj.DeepCopy(), func(obj *corev1.ConfigMap) {
							metav1.SetMetaDataAnnotation(&obj.ObjectMeta, retryPrefix+"retry."+id, text)
						})
					}
				}
				things := kopf.For(&corev1.ConfigMap{}).
					OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
						if attempts++; attempts%2 == 1 {
							return kopf.Temporary(errors.New("busy"), 5*time.Second)
						}
						return nil
					}).
					OnUpdate("update", func(_ context.Context, req *kopf.Request[configMap]) error {
						metav1.SetMetaDataLabel(&req.Object.ObjectMeta, "seen", req.Object.Data["a"])
						return nil
					})
				return kopftest.Scenario{
					Given:    kopftest.Given{Objects: []client.Object{obj}},
					Operator: func() []kopf.Option { return []kopf.Option{things} },
					Steps: []func(testing.TB, *kopftest.Cluster){
						annotate("create", "first"), annotate("update", "second"), annotate("unknown", "third"),
						func(t testing.TB, c *kopftest.Cluster) {
							kopftest.Edit(t, c, obj.DeepCopy(), func(obj *corev1.ConfigMap) { obj.Data["a"] = "2" })
						},
					},
				}
			})
		})
	}
}

// An operator without cause handlers answers, too, and stores nothing else.
func TestRetry_OnlyTimers(t *testing.T) {
	retryTest(t, func(w *retryWorld) {
		w.do["timer"] = kopf.Temporary(errors.New("busy"), time.Hour)
		w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).
			Timer("timer", daemons.Timer{Interval: 24 * time.Hour, Idle: time.Minute}, func(context.Context, *kopf.Request[configMap]) error {
				w.log.addf("timer")
				return w.do["timer"]
			}))
		w.Create(w.T, w.obj)
		w.expect("")
		w.request("a", "timer")
		w.expect("timer", "retried.timer", answer("a", "called", ""))
		delete(w.do, "timer")
		w.request("b", "timer") // the delay of an hour
		w.expect("timer", "retried.timer", answer("b", "called", ""))
		w.expect("", "retried.timer", answer("b", "called", ""))
		if len(w.obj.Annotations) != 1 {
			t.Errorf("annotations = %v, want only the answer", w.obj.Annotations)
		}
	})
}
