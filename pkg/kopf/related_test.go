package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

type configMap = *corev1.ConfigMap

func newConfigMap(name string, labels ...string) configMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for i := 0; i < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&obj.ObjectMeta, labels[i], labels[i+1])
	}
	return obj
}

func newSecret(name string, users ...string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"users": strings.Join(users, ",")}},
	}
}

// usersOf maps an object to the ConfigMaps in its annotation.
func usersOf(_ context.Context, obj client.Object) (requests []reconcile.Request) {
	for _, name := range strings.FieldsFunc(obj.GetAnnotations()["users"], func(r rune) bool { return r == ',' }) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}})
	}
	return requests
}

// calls records the objects for which a handler was called.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) handle(_ context.Context, req *kopf.Request[configMap]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, req.Object.Name)
	return nil
}

// take returns the sorted names since the last call.
func (c *calls) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestWatches_TriggersTheObjectsOfTheMapFunction(t *testing.T) {
	var handled calls
	resource := func() *kopf.Resource[configMap] {
		return kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", handled.handle)
	}
	for name, declare := range map[string]func(handler.MapFunc) *kopf.Resource[configMap]{
		"Watches": func(f handler.MapFunc) *kopf.Resource[configMap] { return resource().Watches(&corev1.Secret{}, f) },
		"WatchesMetadata": func(f handler.MapFunc) *kopf.Resource[configMap] {
			return resource().WatchesMetadata(&corev1.Secret{}, func(ctx context.Context, obj client.Object) []reconcile.Request {
				if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
					t.Errorf("the map function received a %T, want metadata", obj)
				}
				return f(ctx, obj)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a"), newConfigMap("b"), newConfigMap("c"), newSecret("listed", "a")))
				operator := cluster.Run(t, declare(func(ctx context.Context, obj client.Object) []reconcile.Request {
					if obj.GetName() == "broken" {
						panic("broken map function")
					}
					return usersOf(ctx, obj)
				}))
				for _, step := range []struct {
					name string
					do   func()
					want string
				}{
					{"the start", func() {}, "a b c"},
					{"a creation", func() { cluster.Create(t, newSecret("s", "a", "b", "absent")) }, "a b"},
					{"an update from b to c", func() {
						kopftest.Edit(t, cluster, newSecret("s"), func(s *corev1.Secret) { s.Annotations["users"] = "a,c" })
					}, "a b c"},
					{"a panic of the map function", func() { cluster.Create(t, newSecret("broken", "a")) }, ""},
					{"a deletion", func() { cluster.Delete(t, newSecret("s")) }, "a c"},
				} {
					step.do()
					operator.RunUntilQuiet(t)
					if got := handled.take(); got != step.want {
						t.Errorf("after %s, handled %q, want %q", step.name, got, step.want)
					}
				}
			})
		})
	}
}

func TestWatches_AppliesPredicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled calls
		used := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == "used" })
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a")))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", handled.handle).Watches(&corev1.Secret{}, usersOf, used))
		operator.RunUntilQuiet(t)
		handled.take()
		cluster.Create(t, newSecret("other", "a"))
		operator.RunUntilQuiet(t)
		if got := handled.take(); got != "" {
			t.Errorf("after an event that the predicate rejects, handled %q, want none", got)
		}
		cluster.Create(t, newSecret("used", "a"))
		operator.RunUntilQuiet(t)
		if got := handled.take(); got != "a" {
			t.Errorf("after an event that the predicate accepts, handled %q, want a", got)
		}
	})
}

func TestOwns_TriggersOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled calls
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a"), newConfigMap("b")))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", handled.handle).Owns(&corev1.Secret{}))
		operator.RunUntilQuiet(t)
		handled.take()
		ownedBy := func(names ...string) (refs []metav1.OwnerReference) {
			for _, name := range names {
				owner := newConfigMap(name)
				cluster.Get(t, owner)
				refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID})
			}
			return refs
		}
		owned := newSecret("s")
		owned.OwnerReferences = ownedBy("a")
		for _, step := range []struct {
			name string
			do   func()
			want string
		}{
			{"a creation", func() { cluster.Create(t, owned) }, "a"},
			{"an update from owner a to owner b", func() {
				kopftest.Edit(t, cluster, newSecret("s"), func(s *corev1.Secret) { s.OwnerReferences = ownedBy("b") })
			}, "a b"},
			{"a deletion", func() { cluster.Delete(t, newSecret("s")) }, "b"},
			{"the creation of an object without an owner", func() { cluster.Create(t, newSecret("alone")) }, ""},
		} {
			step.do()
			operator.RunUntilQuiet(t)
			if got := handled.take(); got != step.want {
				t.Errorf("after %s, handled %q, want %q", step.name, got, step.want)
			}
		}
	})
}

// trackers is the number of objects that track the same object.
const trackers = 500

func TestTrack_TriggersEachObjectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled calls
		var objects []client.Object
		for i := range trackers {
			objects = append(objects, newConfigMap(fmt.Sprint("user-", i)))
		}
		cluster := kopftest.Memory(t, kopftest.Objects(append(objects, newSecret("shared"), newSecret("other"))...))
		resource := func() *kopf.Resource[configMap] {
			return kopf.For(&corev1.ConfigMap{}).OnReconcile("render", func(ctx context.Context, req *kopf.Request[configMap]) error {
				if err := req.Track(ctx, newSecret("shared")); err != nil {
					return err
				}
				return handled.handle(ctx, req)
			})
		}
		operator := cluster.Run(t, resource())
		operator.RunUntilQuiet(t)
		handled.take()
		edits := 0
		edit := func(name string) {
			edits++
			kopftest.Edit(t, cluster, newSecret(name), func(s *corev1.Secret) {
				metav1.SetMetaDataLabel(&s.ObjectMeta, "edit", fmt.Sprint(edits))
			})
		}
		for range 2 {
			edit("shared")
			<-time.After(time.Second)
			names := strings.Fields(handled.take())
			if different := len(slices.Compact(slices.Clone(names))); len(names) != trackers || different != trackers {
				t.Errorf("calls within a second = %d for %d objects, want %d", len(names), different, trackers)
			}
			operator.RunUntilQuiet(t)
			if got := handled.take(); got != "" {
				t.Errorf("after the first second, handled %q, want none", got)
			}
			edit("other")
			operator.RunUntilQuiet(t)
			if got := handled.take(); got != "" {
				t.Errorf("after a change of an object that no handler tracks, handled %q, want none", got)
			}
		}
		operator.Stop(t)
		edit("shared")
		operator = cluster.Run(t, resource())
		operator.RunUntilQuiet(t)
		if n := len(strings.Fields(handled.take())); n != trackers {
			t.Errorf("handled after a restart = %d, want %d", n, trackers)
		}
		edit("shared")
		operator.RunUntilQuiet(t)
		if n := len(strings.Fields(handled.take())); n != trackers {
			t.Errorf("handled after a restart and a change = %d, want %d", n, trackers)
		}
	})
}

func TestTrack_FollowsTheLastSuccessfulAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a", "secret", "one")))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("read", func(ctx context.Context, req *kopf.Request[configMap]) error {
			err := req.Track(ctx, newSecret(req.Object.Labels["secret"]))
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			seen = append(seen, fmt.Sprint(req.Object.Labels["secret"], " ", err == nil))
			if req.Object.Labels["fail"] != "" {
				return kopf.Permanent(fmt.Errorf("failed"))
			}
			return nil
		}))
		check := func(action string, want ...string) {
			t.Helper()
			operator.RunUntilQuiet(t)
			if !slices.Equal(seen, want) {
				t.Errorf("after %s, read %q, want %q", action, seen, want)
			}
			seen = nil
		}
		label := func(key, value string) {
			kopftest.Edit(t, cluster, newConfigMap("a"), func(obj configMap) { obj.Labels[key] = value })
		}
		check("the start", "one false")
		cluster.Create(t, newSecret("one"))
		check("the creation of the tracked object", "one true")
		cluster.Create(t, newSecret("two"))
		check("the creation of another object", nil...)
		label("secret", "two")
		check("a change of the name", "two true")
		cluster.Delete(t, newSecret("one"))
		check("the deletion of an object that is not tracked any more", nil...)
		label("fail", "yes")
		check("the start of the failures", "two true")
		cluster.Delete(t, newSecret("two"))
		check("the deletion of the tracked object", "two false")
		cluster.Delete(t, newConfigMap("a"))
		check("the deletion of the object", nil...)
		cluster.Create(t, newSecret("two"))
		check("a change after the deletion of the object", nil...)
	})
}

func TestTrack_RejectsOtherHandlersAndIncompleteObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inCause, withoutName, aboutEvent error
		one := newConfigMap("a")
		cluster := kopftest.Memory(t, kopftest.Objects(one))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
				inCause = req.Track(ctx, newSecret("one"))
				return nil
			}).
			OnReconcile("apply", func(ctx context.Context, req *kopf.Request[configMap]) error {
				withoutName = req.Track(ctx, &corev1.Secret{})
				return nil
			}).
			OnEventAbout("see", clusterevents.Selector{}, func(ctx context.Context, req *kopf.Request[configMap], _ *corev1.Event) error {
				aboutEvent = req.Track(ctx, newSecret("one"))
				return nil
			}))
		operator.RunUntilQuiet(t)
		cluster.Get(t, one)
		cluster.Create(t, newEvent(t, "new", one))
		<-time.After(time.Minute)
		for _, test := range []struct {
			want string
			err  error
		}{{"use an OnReconcile handler", inCause}, {"has no name", withoutName}, {"use an OnReconcile handler", aboutEvent}} {
			if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("error = %v, want %q in it", test.err, test.want)
			}
		}
	})
}

// Without a cause, there is no old value.
func TestOnReconcile_FieldHasTheCurrentValueTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newConfigMap("a")
		one.Data = map[string]string{"size": "1"}
		cluster := kopftest.Memory(t, kopftest.Objects(one))
		var got [][2]any
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnUpdate("update", func(context.Context, *kopf.Request[configMap]) error {
				return kopf.Temporary(errors.New("not yet"), time.Hour)
			}).
			OnReconcile("apply", func(_ context.Context, req *kopf.Request[configMap]) error {
				old, now := req.Field()
				got = append(got, [2]any{old, now})
				return nil
			}, kopf.Field("data.size")))
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, one, func(obj *corev1.ConfigMap) { obj.Data["size"] = "2" })
		<-time.After(time.Minute) // the update has not ended
		if len(got) < 2 || got[0] != [2]any{"1", "1"} || got[len(got)-1] != [2]any{"2", "2"} {
			t.Errorf("the fields are %v, want the values 1 1 first, and 2 2 last", got)
		}
	})
}

func TestTriggers_FromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled calls
		var operator *kopf.Operator
		requests := make(chan event.GenericEvent)
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a"), newConfigMap("b")))
		running := cluster.RunManager(t, func(mgr manager.Manager) error {
			operator = kopf.New(mgr, kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", handled.handle).
				TriggerFrom(source.Channel(requests, &handler.EnqueueRequestForObject{})))
			if err := operator.Enqueue(newConfigMap("a")); err == nil || !strings.Contains(err.Error(), "not running") {
				t.Errorf("error before the start = %v, want that the operator is not running", err)
			}
			return mgr.Add(operator)
		})
		running.RunUntilQuiet(t)
		handled.take()

		requests <- event.GenericEvent{Object: newConfigMap("b")}
		requests <- event.GenericEvent{Object: newConfigMap("absent")}
		running.RunUntilQuiet(t)
		if got := handled.take(); got != "b" {
			t.Errorf("after an event of the channel, handled %q, want b", got)
		}
		if err := operator.Enqueue(newConfigMap("a")); err != nil {
			t.Error(err)
		}
		running.RunUntilQuiet(t)
		if got := handled.take(); got != "a" {
			t.Errorf("after Enqueue, handled %q, want a", got)
		}
		for want, obj := range map[string]client.Object{
			"has not observed the object default/absent": newConfigMap("absent"),
			"no OnReconcile handler":                     newSecret("one"),
		} {
			if err := operator.Enqueue(obj); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error of Enqueue = %v, want %q in it", err, want)
			}
		}
	})
}

func TestRelated_ReportsMistakes(t *testing.T) {
	apply := func(context.Context, *kopf.Request[configMap]) error { return nil }
	for name, test := range map[string]struct {
		resource *kopf.Resource[configMap]
		want     string
	}{
		"without a map function": {kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", apply).Watches(&corev1.Secret{}, nil), "pass a function that returns the objects"},
		"without an object":      {kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", apply).Watches(nil, usersOf), "Watches(nil): pass an empty object"},
		"without a handler":      {kopf.For(&corev1.ConfigMap{}).OnCreate("create", apply).WatchesMetadata(&corev1.Secret{}, usersOf), "no effect without an OnReconcile handler"},
		"with a nil predicate":   {kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", apply).Watches(&corev1.Secret{}, usersOf, nil), "nil predicate"},
		"with a nil source":      {kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", apply).TriggerFrom(nil), "TriggerFrom(nil)"},
		"with an unknown kind": {
			kopf.For(&corev1.ConfigMap{}).OnReconcile("apply", apply).Watches(&metav1.PartialObjectMetadata{}, usersOf), "kind is not registered in the manager's scheme",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := error(nil)
				kopftest.Memory(t).RunManager(t, func(mgr manager.Manager) error {
					err = kopf.New(mgr, test.resource).CheckDeclaration()
					return nil
				})
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error = %v, want %q in it", err, test.want)
				}
			})
		})
	}
}

func TestTrack_ReadsWithoutAnOperator(t *testing.T) {
	var found error
	kopftest.Invoke(t, func(ctx context.Context, req *kopf.Request[configMap]) error {
		found = req.Track(ctx, newSecret("one"))
		if err := req.Track(ctx, newSecret("absent")); !apierrors.IsNotFound(err) {
			t.Errorf("error for an object that does not exist = %v, want NotFound", err)
		}
		return nil
	}, newConfigMap("a"), kopftest.WithObjects(newSecret("one")), kopftest.WithReason("reconcile"))
	if found != nil {
		t.Error(found)
	}
}

// The cache ignores the namespace of a cluster-scoped object.
func TestTrack_ClusterScopedObjectWithNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}} }
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"), node()))
		calls := 0
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("track", func(ctx context.Context, req *kopf.Request[configMap]) error {
			calls++
			tracked := node()
			tracked.Namespace = req.Object.Namespace
			return req.Track(ctx, tracked)
		}))
		operator.RunUntilQuiet(t)
		before := calls
		kopftest.Edit(t, cluster, node(), func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
		operator.RunUntilQuiet(t)
		if calls != before+1 {
			t.Errorf("%d calls after the change, want 1", calls-before)
		}
	})
}
