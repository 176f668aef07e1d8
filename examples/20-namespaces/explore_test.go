package main

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Under every fault, the operator handles each change, also those that are made while the namespace does not have the label. Explore does not wait until the
// operator has left a namespace. So at the end of each step, the namespace has the label.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Operator: operator,
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newNamespace("true"), newPriceList()) },
				func(t testing.TB, c *kopftest.Cluster) { addPrice(t, c, "tea") },
				func(t testing.TB, c *kopftest.Cluster) {
					setManaged(t, c, "false")
					addPrice(t, c, "juice")
					setManaged(t, c, "true")
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newPriceList()) },
			},
		}
	}, kopftest.WithMaxPlans(10))
}

func TestPriceLists_FollowTheLabelOfTheNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("false"), newPriceList()))
		cluster.Run(t, priceLists(), kopf.WithNamespaceFunc(isManaged))
		for i, step := range []struct {
			do     func()
			prices string
		}{
			{func() {}, ""},
			{func() { setManaged(t, cluster, "true") }, "1"},
			{func() { addPrice(t, cluster, "tea") }, "2"},
			{func() { setManaged(t, cluster, "false") }, "2"},
			{func() { addPrice(t, cluster, "juice") }, "2"},
			{func() { setManaged(t, cluster, "true") }, "3"},
		} {
			step.do()
			wait()
			list := newPriceList()
			if cluster.Get(t, list); list.Annotations[pricesAnnotation] != step.prices {
				t.Errorf("step %d: prices = %q, want %q", i, list.Annotations[pricesAnnotation], step.prices)
			}
			if len(list.Finalizers) != 0 {
				t.Errorf("step %d: finalizers = %q, want an empty list", i, list.Finalizers)
			}
		}
	})
}

func newNamespace(managed string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{managedLabel: managed}}}
}

func newPriceList() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "drinks", Labels: map[string]string{priceListLabel: ""}},
		Data:       map[string]string{"coffee": "3.50"},
	}
}

// setManaged sets the label of the namespace, and waits until the operator has noticed the change.
func setManaged(t testing.TB, c *kopftest.Cluster, value string) {
	t.Helper()
	kopftest.Edit(t, c, newNamespace(""), func(ns *corev1.Namespace) { ns.Labels[managedLabel] = value })
	wait()
}

func addPrice(t testing.TB, c *kopftest.Cluster, name string) {
	t.Helper()
	kopftest.Edit(t, c, newPriceList(), func(list *corev1.ConfigMap) { list.Data[name] = "2.80" })
}

// wait takes no real time, because the tests run in a bubble of testing/synctest.
func wait() { <-time.After(5 * time.Second) }
