package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Under every fault, the page has the title of the theme and the names of all Services in the end.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Operator: func() []kopf.Option { return []kopf.Option{pages()} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newPage()) },
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newTheme("Shops")) },
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newService("web"), newService("db")) },
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newTheme(""), func(theme *corev1.ConfigMap) { theme.Data["title"] = "Stores" })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newService("db")) },
			},
		}
	}, kopftest.WithMaxPlans(10))
}

func TestPages_FollowRelatedObjects(t *testing.T) {
	cluster := kopftest.Memory(t, kopftest.Objects(newPage()))
	operator := cluster.Run(t, pages())
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ": "},
		{func() { cluster.Create(t, newTheme("Shops")) }, "Shops: "},
		{func() { cluster.Create(t, newService("web"), newService("db")) }, "Shops: db, web"},
		{func() {
			kopftest.Edit(t, cluster, newTheme(""), func(theme *corev1.ConfigMap) { theme.Data["title"] = "Stores" })
		}, "Stores: db, web"},
		{func() { cluster.Delete(t, newService("db")) }, "Stores: web"},
		{func() { cluster.Delete(t, newTheme("")) }, ": web"},
	} {
		step.do()
		operator.RunUntilQuiet(t)
		page := newPage()
		if cluster.Get(t, page); page.Data["text"] != step.want {
			t.Errorf("text = %q, want %q", page.Data["text"], step.want)
		}
	}
}

func newPage() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "page", Labels: map[string]string{themeLabel: "theme"}}}
}

func newTheme(title string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theme"}, Data: map[string]string{"title": title}}
}

func newService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}
