package children_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// lagging is a client that returns one version of a ConfigMap until another one is set. A nil version is not found.
type lagging struct {
	client.Client
	shown *corev1.ConfigMap
}

func newLagging(t *testing.T) *lagging {
	l := &lagging{}
	l.Client = interceptor.NewClient(withWatch(t), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			if l.shown == nil {
				return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
			}
			l.shown.DeepCopyInto(obj.(*corev1.ConfigMap))
			return nil
		},
	})
	return l
}

func TestApply_WithLaggingCache(t *testing.T) {
	owner, cached := realOwner(t), newLagging(t)
	live := func() *corev1.ConfigMap {
		t.Helper()
		out := &corev1.ConfigMap{}
		must(t, k8s.Get(t.Context(), client.ObjectKey{Namespace: owner.Namespace, Name: "child"}, out))
		return out
	}
	apply := func(value string) (operation, data string, requests int) {
		t.Helper()
		var results []children.Result
		requests = countWrites(func() {
			var err error
			child := &corev1.ConfigMap{ObjectMeta: object("child"), Data: map[string]string{"a": value}}
			results, err = children.Of(owner, cached, children.FieldOwner("db operator")).Apply(t.Context(), child)
			must(t, err)
		})
		return string(results[0].Operation), results[0].Object.(*corev1.ConfigMap).Data["a"], requests
	}
	expect := func(what, value, operation string, requests int) {
		t.Helper()
		gotOperation, data, gotRequests := apply(value)
		equal(t, what+": operation", gotOperation, operation)
		equal(t, what+": result", data, value)
		equal(t, what+": requests", gotRequests, requests)
	}
	other := func(value string) {
		t.Helper()
		obj := live()
		obj.Data["a"] = value
		must(t, k8s.Update(t.Context(), obj, client.FieldOwner("other")))
	}

	expect("a child is created", "1", "created", 2) // includes a dry run
	cached.shown = live()
	expect("the cache contains the child", "1", "unchanged", 0)

	expect("the child changes", "2", "updated", 1)
	for range 3 {
		expect("the cache lags", "2", "unchanged", 0)
	}
	expect("another change", "3", "updated", 1)
	expect("the child changes back", "2", "updated", 1)
	expect("the cache still lags", "2", "unchanged", 0)
	cached.shown = live()
	expect("the cache is up to date", "2", "unchanged", 0)

	expect("one more change", "4", "updated", 1)
	other("theirs")
	expect("another client has changed the child, the cache lags", "4", "unchanged", 0)
	cached.shown = live()
	expect("the cache contains the change", "4", "updated", 1)
	expect("the cache lags after the correction", "4", "unchanged", 0)

	must(t, k8s.Delete(t.Context(), live()))
	cached.shown = nil
	expect("another client has deleted the child", "4", "created", 2)
	expect("the cache lags, the server is read", "4", "unchanged", 1)
	must(t, k8s.Delete(t.Context(), live()))
	expect("another client has deleted a child that the cache never contained", "4", "created", 2)
}
