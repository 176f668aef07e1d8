package kopf_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

const baselineKey = "kopf.zalando.org/last-handled-configuration"

// formOf describes an object's baseline.
func formOf(obj configMap) string {
	switch text := obj.Annotations[baselineKey]; {
	case text == "":
		return "none"
	case strings.Contains(text, "digest"):
		return "digest"
	case strings.Contains(text, obj.Data["a"]):
		return "current"
	default:
		return "earlier"
	}
}

// leanWorld runs operators with lean caches, and logs in which form their parts see an object.
type leanWorld struct {
	*testing.T
	*kopftest.Cluster
	log    texts
	cached configMap // as a predicate has seen it last
	obj    configMap
	op     *kopftest.Operator
}

func (w *leanWorld) run(options ...kopf.ResourceOption) {
	see := func(what string) kopf.Handler[configMap] {
		return func(ctx context.Context, req *kopf.Request[configMap]) error {
			read, all := &corev1.ConfigMap{}, &corev1.ConfigMapList{}
			if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), read); err != nil {
				return err
			}
			if err := req.Client.List(ctx, all); err != nil {
				return err
			}
			old := ""
			if req.Reason == kopf.ReasonUpdate {
				old = ", Old unknown"
				if req.Old != nil {
					old = ", Old " + req.Old.Data["a"]
				}
			}
			w.log.addf("%s:%s get=%s list=%s latest=%s%s", what, formOf(req.Object), formOf(read), formOf(&all.Items[0]), formOf(req.Latest()), old)
			return nil
		}
	}
	note := func(obj client.Object) bool {
		w.cached = obj.(configMap)
		w.log.addf("cache:%s", formOf(w.cached))
		return true
	}
	resource := kopf.For(&corev1.ConfigMap{}, append(options, kopf.WithPredicates(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return note(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return note(e.ObjectNew) },
	}))...).
		OnCreate("create", see("create")).
		OnUpdate("update", see("update")).
		OnResume("resume", see("resume")).
		OnDelete("delete", see("delete"), kopf.Optional()).
		OnEvent("event", see("event")).
		Timer("timer", daemons.Timer{Interval: time.Hour}, see("timer"), kopf.InitialDelay(90*time.Second))
	kopf.IndexBy(resource, "index", func(_ context.Context, req *kopf.Request[configMap]) (map[string]string, error) {
		w.log.addf("index:%s", formOf(req.Object))
		return nil, nil
	})
	w.op = w.Cluster.Run(w.T, kopf.WithLeanCaches(), resource)
}

func (w *leanWorld) patch(text string) {
	w.Helper()
	if err := w.Client.Patch(w.Context(), w.obj.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// expectStored checks in which form the API server has the object's baseline.
func (w *leanWorld) expectStored(want string) {
	w.Helper()
	w.Get(w.T, w.obj)
	if got := formOf(w.obj); got != want {
		w.Errorf("the stored baseline is %s, want %s: %v", got, want, w.obj.Annotations)
	}
}

func leanTest(t *testing.T, test func(*leanWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &leanWorld{T: t, Cluster: kopftest.Memory(t)}
		w.obj = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}, Data: map[string]string{"a": "one"}}
		w.Create(t, w.obj.DeepCopy())
		test(w)
	})
}

// TestWithLeanCaches: the cache has only the digest of an object at rest, and handlers and clients see whole objects.
func TestWithLeanCaches(t *testing.T) {
	leanTest(t, func(w *leanWorld) {
		w.run()
		expectTexts(t, &w.log, "cache:digest, cache:none, cache:none, create:none get=none list=none latest=none, "+
			"event:current get=current list=current latest=current, event:none get=none list=none latest=none, event:none get=none list=none latest=none, "+
			"index:current, index:none, index:none")
		expectTexts(t, &w.log, "timer:current get=current list=current latest=current")
		w.expectStored("current")

		w.patch(`{"data":{"a":"two"}}`)
		expectTexts(t, &w.log, "cache:digest, cache:earlier, event:current get=current list=current latest=current, "+
			"event:earlier get=earlier list=earlier latest=earlier, index:current, index:earlier, "+
			"update:earlier get=earlier list=earlier latest=earlier, Old one")
		w.expectStored("current")

		w.op.Stop(t)
		w.run()
		expectTexts(t, &w.log, "cache:digest, event:current get=current list=current latest=current, index:current, resume:current get=current list=current latest=current")
		w.patch(`{"metadata":{"labels":{"tier":"gold"}}}`)
		expectTexts(t, &w.log, "cache:current, cache:digest, event:current get=current list=current latest=current, event:current get=current list=current latest=current, "+
			"index:current, index:current, timer:current get=current list=current latest=current, update:current get=current list=current latest=current, Old two")
	})
}

// TestWithLeanCaches_WrittenDigest: if a client writes what it has read from the lean cache, no update is lost, and only the next old state
// is unknown.
func TestWithLeanCaches_WrittenDigest(t *testing.T) {
	for name, restarts := range map[string]bool{"same process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			leanTest(t, func(w *leanWorld) {
				w.run()
				<-time.After(time.Minute)
				byMistake := w.cached.DeepCopy()
				if formOf(byMistake) != "digest" {
					t.Fatalf("the cached baseline is %s, want a digest", formOf(byMistake))
				}
				if restarts {
					w.op.Stop(t)
				}
				byMistake.Finalizers = append(byMistake.Finalizers, "example.com/other")
				if err := w.Client.Update(t.Context(), byMistake); err != nil {
					t.Fatal(err)
				}
				if w.log.take(); restarts {
					w.run()
				}
				<-time.After(30 * time.Second)
				if got := w.log.take(); strings.Contains(got, "update:") {
					t.Errorf("got %q, want no update, because the configuration has not changed", got)
				}
				w.patch(`{"data":{"a":"two"}}`)
				<-time.After(20 * time.Second)
				if got := w.log.take(); strings.Count(got, "update:") != 1 {
					t.Errorf("got %q, want one update", got)
				}
				w.expectStored("current")
				w.patch(`{"data":{"a":"three"}}`)
				<-time.After(20 * time.Second)
				if got := w.log.take(); strings.Count(got, "update:") != 1 || !strings.Contains(got, "Old two") {
					t.Errorf("got %q, want one update with the old state", got)
				}
			})
		})
	}
}

// TestWithLeanCaches_OptionalDelete: an optional delete handler gets a whole object, although the operator has nothing to write.
func TestWithLeanCaches_OptionalDelete(t *testing.T) {
	leanTest(t, func(w *leanWorld) {
		w.patch(`{"metadata":{"finalizers":["example.com/other"]}}`)
		kind := kopf.For(&corev1.ConfigMap{}).
			OnCreate("create", func(context.Context, *kopf.Request[configMap]) error { return nil }).
			OnDelete("delete", func(_ context.Context, req *kopf.Request[configMap]) error {
				w.log.addf("delete:%s", formOf(req.Object))
				return nil
			}, kopf.Optional())
		w.op = w.Cluster.Run(w.T, kopf.WithLeanCaches(), kind)
		<-time.After(time.Minute)
		if err := w.Client.Delete(w.Context(), w.obj.DeepCopy()); err != nil {
			w.Fatal(err)
		}
		expectTexts(w.T, &w.log, "delete:current")
	})
}

// TestWithLeanCaches_ManagersNamespaces: the operator's cache is restricted like the manager's.
func TestWithLeanCaches_ManagersNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kopftest.Memory(t)
		c.Create(t, newNamespace("other"))
		ours, theirs := newConfigMap("ours"), newConfigMap("theirs")
		theirs.Namespace = "other"
		c.Create(t, ours, theirs)
		var log texts
		setup := func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.WithLeanCaches(), kopf.For(&corev1.ConfigMap{}).OnCreate("create", log.handler("create")))
		}
		c.RunManager(t, setup, func(o *manager.Options) {
			o.Cache.DefaultNamespaces = map[string]cache.Config{"default": {}}
		})
		expectTexts(t, &log, "create default/ours")
	})
}
