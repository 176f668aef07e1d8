package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func newOwner(name string, uid types.UID) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
}

// newOwned returns a ConfigMap with three Secrets as owners, of which the last one does not exist, and a Node.
func newOwned() *corev1.ConfigMap {
	ref := func(kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: uid}
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child", OwnerReferences: []metav1.OwnerReference{
		ref("Secret", "a", "uid-a"), ref("Secret", "b", "uid-b"), ref("Secret", "recreated", "uid-old"), ref("Secret", "gone", "uid-gone"), ref("Node", "n", "uid-n"),
	}}}
}

func TestForEachOwner_CauseHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newOwner("a", "uid-a"), newOwner("b", "uid-b"), newOwner("recreated", "uid-new"), newOwned()))
		var calls []string
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("report", kopf.ForEachOwner(&corev1.Secret{},
			func(_ context.Context, req *kopf.Request[*corev1.ConfigMap], owner *corev1.Secret) error {
				calls = append(calls, req.Handler+" "+owner.Name)
				if owner.Name == "b" && req.Attempt.Number < 2 {
					return errors.New("not yet")
				}
				return nil
			}, kopf.Backoff(time.Second))))
		operator.RunUntilQuiet(t)
		if want := []string{"report/uid-a a", "report/uid-b b", "report/uid-b b", "report/uid-b b"}; !slices.Equal(calls, want) {
			t.Errorf("calls = %v, want %v", calls, want)
		}
	})
}

func TestForEachOwner_ReconcileHandler(t *testing.T) {
	cluster := kopftest.Memory(t, kopftest.Objects(newOwner("a", "uid-a"), newOwner("b", "uid-b"), newOwned()))
	var calls []string
	operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("report", kopf.ForEachOwner(&corev1.Secret{},
		func(_ context.Context, req *kopf.Request[*corev1.ConfigMap], owner *corev1.Secret) error {
			calls = append(calls, req.Handler+" "+owner.Name)
			return nil
		})))
	operator.RunUntilQuiet(t)
	if want := []string{"report a", "report b"}; !slices.Equal(calls, want) {
		t.Errorf("calls = %v, want %v", calls, want)
	}
}

func TestForEachOwner_Errors(t *testing.T) {
	memory := kopftest.Memory(t, kopftest.Objects(newOwner("a", "uid-a"), newOwner("b", "uid-b")))
	ignore := func(context.Context, *kopf.Request[*corev1.ConfigMap], *corev1.Secret) error { return nil }
	for _, test := range []struct {
		name    string
		handler kopf.Handler[*corev1.ConfigMap]
		client  client.Client
		want    string
	}{
		{"nil owner", kopf.ForEachOwner[*corev1.ConfigMap, *corev1.Secret](nil, ignore), memory.Client, "ForEachOwner(nil): pass an empty object"},
		{"no client", kopf.ForEachOwner(&corev1.Secret{}, ignore), nil, "the request has no client"},
		{"unknown kind", kopf.ForEachOwner(&Database{}, func(context.Context, *kopf.Request[*corev1.ConfigMap], *Database) error { return nil }), memory.Client,
			"the kind is not registered in the manager's scheme"},
		{"all errors", kopf.ForEachOwner(&corev1.Secret{}, func(_ context.Context, _ *kopf.Request[*corev1.ConfigMap], owner *corev1.Secret) error {
			return errors.New("failed for " + owner.Name)
		}), memory.Client, "Secret default/a: failed for a\nSecret default/b: failed for b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := &kopf.Request[*corev1.ConfigMap]{Object: newOwned(), Client: test.client}
			if err := test.handler(t.Context(), req); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
	if handler := kopf.ForEachOwner[*corev1.ConfigMap, *corev1.Secret](&corev1.Secret{}, nil); handler != nil {
		t.Error("the handler without a function is not nil, so that its registration reports no error")
	}
}

// Each related object has its own progress, and the function receives the old and the new state of the changed object.
func TestForEachRelated_CauseHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("a"), newConfigMap("b"), newSecret("key", "a", "gone", "b", "a")))
		var calls []string
		fails := 1
		start := func() *kopftest.Operator {
			return cluster.Run(t, kopf.For(&corev1.Secret{}, kopf.WithDigestOnly(false)).On("rotate", []kopf.Reason{kopf.ReasonUpdate, kopf.ReasonDelete}, kopf.ForEachRelated(
				&corev1.ConfigMap{}, usersOf, func(_ context.Context, req *kopf.Request[*corev1.Secret], user *corev1.ConfigMap) error {
					calls = append(calls, fmt.Sprintf("%s of %s from %q to %q", req.Handler, user.Name, req.Old.Data["key"], req.Object.Data["key"]))
					if user.Name == "b" && fails > 0 {
						fails--
						return errors.New("not yet")
					}
					return nil
				}, kopf.Backoff(time.Minute))))
		}
		operator := start()
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, newSecret("key"), func(s *corev1.Secret) { s.Data = map[string][]byte{"key": []byte("one")} })
		<-time.After(10 * time.Second) // virtual time: both were called, and b has failed
		operator.Stop(t)
		operator = start()
		operator.RunUntilQuiet(t)
		want := []string{`rotate/default.a of a from "" to "one"`, `rotate/default.b of b from "" to "one"`, `rotate/default.b of b from "" to "one"`}
		if !slices.Equal(calls, want) {
			t.Errorf("calls = %q, want %q: only the failed one is repeated after the restart", calls, want)
		}
		calls = nil
		cluster.Delete(t, newSecret("key"))
		operator.RunUntilQuiet(t)
		if len(calls) != 2 {
			t.Errorf("calls = %q, want one for each user of the deleted Secret", calls)
		}
	})
}

// Users may write any owner references, also the same one twice.
func TestForEachOwner_InventedOwners(t *testing.T) {
	memory := kopftest.Memory(t, kopftest.Objects(newOwner("a", "uid-a")))
	calls := 0
	handler := kopf.ForEachOwner(&corev1.Secret{}, func(context.Context, *kopf.Request[*corev1.ConfigMap], *corev1.Secret) error {
		calls++
		return nil
	})
	call := func(owners ...metav1.OwnerReference) error {
		calls = 0
		child := newConfigMap("child")
		child.Namespace, child.OwnerReferences = "default", owners
		return handler(t.Context(), &kopf.Request[*corev1.ConfigMap]{Object: child, Client: memory.Client})
	}
	known := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "a", UID: "uid-a"}
	if err := call(known, known); err != nil || calls != 1 {
		t.Errorf("the same owner twice: error = %v, calls = %d, want one", err, calls)
	}
	var invented []metav1.OwnerReference
	for i := range 200 {
		invented = append(invented, metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "a", UID: types.UID(fmt.Sprint("uid-", i))})
	}
	if err := call(invented...); err != nil {
		t.Errorf("error = %v for 200 owners", err)
	}
	err := call(append(invented, known)...)
	if want := "ForEachOwner: the object has 201 owners of the kind Secret, but at most 200 are allowed"; err == nil || !strings.Contains(err.Error(), want) || !progress.Expected(err) {
		t.Errorf("error = %v, want the permanent error %q", err, want)
	}
}

func TestForEachRelated_Errors(t *testing.T) {
	memory := kopftest.Memory(t)
	ignore := func(context.Context, *kopf.Request[*corev1.Secret], *corev1.ConfigMap) error { return nil }
	for name, test := range map[string]struct {
		mapFunc handler.MapFunc
		want    string
	}{
		"a panic": {func(context.Context, client.Object) []reconcile.Request { panic("no map") }, "ForEachRelated: the map function panicked: no map"},
		"too many objects": {func(context.Context, client.Object) (requests []reconcile.Request) {
			for i := range 201 {
				requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}})
			}
			return requests
		},
			"the map function has returned 201 objects, but at most 200 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			req := &kopf.Request[*corev1.Secret]{Object: newSecret("key"), Client: memory.Client}
			err := kopf.ForEachRelated(&corev1.ConfigMap{}, test.mapFunc, ignore)(t.Context(), req)
			if err == nil || !strings.Contains(err.Error(), test.want) || !progress.Expected(err) {
				t.Errorf("error = %v, want the permanent error %q", err, test.want)
			}
		})
	}
	if handler := kopf.ForEachRelated(&corev1.ConfigMap{}, nil, ignore); handler != nil {
		t.Error("the handler without a map function is not nil, so that its registration reports no error")
	}
	// The map function must not change the cached object.
	edit := func(_ context.Context, obj client.Object) []reconcile.Request { obj.SetName("changed"); return nil }
	req := &kopf.Request[*corev1.Secret]{Object: newSecret("key"), Client: memory.Client}
	if err := kopf.ForEachRelated(&corev1.ConfigMap{}, edit, ignore)(t.Context(), req); err != nil || req.Object.Name != "key" {
		t.Errorf("error = %v, name = %s, want no error and the old name", err, req.Object.Name)
	}
}

// A permanent error of one call does not end the retries of the others.
func TestForEachOwner_PermanentAndOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newOwner("a", "uid-a"), newOwner("b", "uid-b"), newOwned()))
		var calls []string
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("report", kopf.ForEachOwner(&corev1.Secret{},
			func(_ context.Context, _ *kopf.Request[*corev1.ConfigMap], owner *corev1.Secret) error {
				switch calls = append(calls, owner.Name); {
				case owner.Name == "b":
					return kopf.Permanent(errors.New("invalid"))
				case len(calls) == 1:
					return errors.New("not yet")
				}
				return nil
			})))
		operator.RunUntilQuiet(t)
		if want := []string{"a", "b", "a", "b"}; !slices.Equal(calls, want) {
			t.Errorf("calls = %v, want %v", calls, want)
		}
	})
}

// Names of some kinds are no valid ids.
func TestForEachRelated_NamesWithColons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"bar", "system:foo", "system-foo"}
		objects := []client.Object{newConfigMap("one")}
		var requests []reconcile.Request
		for _, name := range names {
			objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}})
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
		var calls []string
		operator := kopftest.Memory(t, kopftest.Objects(objects...)).Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("create", kopf.ForEachRelated(&rbacv1.ClusterRole{},
			func(context.Context, client.Object) []reconcile.Request { return requests },
			func(_ context.Context, _ *kopf.Request[*corev1.ConfigMap], role *rbacv1.ClusterRole) error {
				calls = append(calls, role.Name)
				return nil
			})))
		operator.RunUntilQuiet(t)
		if !slices.Equal(calls, names) {
			t.Errorf("calls = %v, want %v", calls, names)
		}
	})
}
