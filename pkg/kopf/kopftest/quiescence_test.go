package kopftest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

func nothing(context.Context, *cmRequest) error { return nil }

// RunUntilQuiet supports all kinds of handlers, options and objects.
func TestRunUntilQuiet_ReturnsWithoutPendingWork(t *testing.T) {
	fails := func(context.Context, *cmRequest) error { return errors.New("boom") }
	none := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	again := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: 300 * time.Millisecond}, nil
	})
	bare := &unstructured.Unstructured{}
	bare.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	only := &metav1.PartialObjectMetadata{}
	only.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for name, operator := range map[string]kopf.Option{
		"predicates that drop all events":           kopf.For(&corev1.ConfigMap{}, kopf.WithPredicates(none)).OnCreate("create", nothing),
		"a reconcile handler without attempts left": kopf.For(&corev1.ConfigMap{}).OnReconcile("main", fails, kopf.Retries(2), kopf.Backoff(time.Minute)),
		"a failed reconcile handler":                kopf.For(&corev1.ConfigMap{}).OnReconcile("main", fails, kopf.Retries(2), kopf.Backoff(time.Minute), kopf.Interval(6*time.Hour)),
		"a short interval":                          kopf.For(&corev1.ConfigMap{}).OnReconcile("main", nothing, kopf.Interval(300*time.Millisecond)),
		"a busy reconciler":                         kopf.For(&corev1.ConfigMap{}).OnReconcile("main", kopf.FromReconciler[*corev1.ConfigMap](again)),
		"an event handler":                          kopf.For(&corev1.ConfigMap{}).OnEvent("event", nothing),
		"a timer":                                   kopf.For(&corev1.ConfigMap{}).Timer("timer", daemons.Timer{Interval: time.Second}, nothing),
		"unstructured": kopf.For(bare).OnCreate("create", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error {
			return nil
		}),
		"metadata": kopf.For(only).OnCreate("create", func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error {
			return nil
		}),
		"a cluster-scoped kind": kopf.For(&corev1.Node{}).OnCreate("create", func(context.Context, *kopf.Request[*corev1.Node]) error { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(configMap(nil), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}))
				running := cluster.Run(t, operator)
				left := failureOf(t, func(tb testing.TB) { running.RunUntilQuiet(tb) })
				NewWithT(t).Expect(left).To(BeEmpty())
			})
		})
	}
}

// An operator with only admission handlers has no caches.
func TestRunUntilQuiet_OperatorWithoutWatches(t *testing.T) {
	cluster := needServer(t)
	agree := func(context.Context, *webhooks.Request[*corev1.ConfigMap]) error { return nil }
	cluster.Run(t, kopf.For(&corev1.ConfigMap{}).Validate("agree", agree)).RunUntilQuiet(t)
}

// RunUntilQuiet ignores the failure of a handler after its object was deleted.
func TestRunUntilQuiet_IgnoresFailuresOfDeletedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, cluster := NewWithT(t), kopftest.Memory(t, kopftest.Objects(configMap(nil)))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("main", func(context.Context, *cmRequest) error {
			return errors.New("boom")
		}))
		<-time.After(time.Second)
		g.Expect(operator.Handlers(configMap(nil))).NotTo(BeEmpty(), "want the calls for the deleted object")
		cluster.Delete(t, configMap(nil))
		began := time.Now()
		g.Expect(failureOf(t, func(tb testing.TB) { operator.RunUntilQuiet(tb) })).To(BeEmpty())
		g.Expect(time.Since(began)).To(BeNumerically("<", time.Hour))
	})
}

// A failed reconcile handler with a pending retry is pending work.
func TestRunUntilQuiet_WaitsForFailedReconcileHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, cluster, calls := NewWithT(t), kopftest.Memory(t, kopftest.Objects(configMap(nil))), 0
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnReconcile("main", func(context.Context, *cmRequest) error {
			if calls++; calls < 5 {
				return kopf.Temporary(errors.New("boom"), time.Minute)
			}
			return nil
		}))
		operator.RunUntilQuiet(t)
		g.Expect(calls).To(Equal(5))
		operator.Stop(t)
		g.Expect(failureOf(t, func(tb testing.TB) { operator.RunUntilQuiet(tb) })).To(ContainSubstring("the operator was stopped"))
	})
}

// The test delays an event between the cache and the queue.
func TestRunUntilQuiet_WaitsForDelayedEvents(t *testing.T) {
	g := NewWithT(t)
	lazy := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool {
		<-time.After(100 * time.Millisecond)
		return true
	}}
	cluster := kopftest.Memory(t, kopftest.Objects(configMap(map[string]string{"color": "red"})))
	operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}, kopf.WithPredicates(lazy)).OnEvent("event", nothing))
	operator.RunUntilQuiet(t)
	before := len(operator.Calls())
	kopftest.Edit(t, cluster, configMap(nil), func(obj *corev1.ConfigMap) { obj.Data["color"] = "blue" })
	operator.RunUntilQuiet(t)
	g.Expect(len(operator.Calls())).To(BeNumerically(">", before))
}

// An operator for one namespace also handles cluster-scoped kinds.
func TestRunUntilQuiet_ClusterScopedKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t).ForTest(t)
		operator := cluster.Run(t, kopf.For(&corev1.Namespace{}).OnCreate("create", func(context.Context, *kopf.Request[*corev1.Namespace]) error { return nil }))
		operator.RunUntilQuiet(t)
		NewWithT(t).Expect(operator.Calls()).NotTo(BeEmpty())
	})
}
