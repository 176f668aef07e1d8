package kopftest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// patient is a handler that retries until the object has a key.
func patient(_ context.Context, req *cmRequest) error {
	if _, ok := req.Object.Data["key"]; !ok {
		return kopf.Temporary(errors.New("there is no key yet"), 10*time.Minute)
	}
	return nil
}

func patients() *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).OnCreate("patient", patient)
}

func ExampleInvoke() {
	test := func(t *testing.T) {
		got := kopftest.Invoke(t, patient, configMap(nil))
		if got.Outcome.Delay != 10*time.Minute {
			t.Errorf("got the delay %s, want 10m0s", got.Outcome.Delay)
		}
	}
	_ = test // called by go test in a real test
}

// Handlers that share a cluster can read each other's objects.
func ExampleWithCluster() {
	test := func(t *testing.T) {
		cluster := kopftest.Memory(t)
		orders := configMap(nil)
		cluster.Create(t, orders)
		kopftest.Invoke(t, secretOf, orders, kopftest.WithCluster(cluster))
		cluster.Get(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
		again := kopftest.Invoke(t, secretOf, orders, kopftest.WithCluster(cluster))
		if !apierrors.IsAlreadyExists(again.Outcome.Err) {
			t.Errorf("got error %v, want AlreadyExists", again.Outcome.Err)
		}
	}
	_ = test
}

func ExampleCycle() {
	test := func(t *testing.T) {
		noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		report := kopftest.Cycle(t, kopftest.Given{Now: noon, Objects: []client.Object{configMap(nil)}}, patients())
		if report.RequeueAfter != 10*time.Minute {
			t.Errorf("got RequeueAfter %s, want 10m0s", report.RequeueAfter)
		}
	}
	_ = test
}

func ExampleMemory() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cluster := kopftest.Memory(t, kopftest.Objects(configMap(nil)))
			operator := cluster.Run(t, patients())
			<-time.After(24 * time.Hour) // the object has no key for one day
			kopftest.Edit(t, cluster, configMap(nil), func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"key": "x"} })
			operator.RunUntilQuiet(t)
			NewWithT(t).Expect(kopftest.Object(t, cluster, configMap(nil))()).To(kopftest.HaveHandled())
		})
	}
	_ = test
}

// The file contains the roles of the operator. "KOPF_UPDATE_RIGHTS=1 go test" writes it.
func ExampleCheckRights() {
	test := func(t *testing.T) {
		rights := rights.Options{Name: "patients", ServiceAccount: "patients", Namespace: "hospital"}
		kopftest.CheckRights(t, "config/rbac/rbac.yaml", clientgoscheme.Scheme, rights, patients())
	}
	_ = test
}

// The operator runs with the permissions of its role on a real API server.
func ExampleCluster_WithRights() {
	test := func(t *testing.T) {
		cluster := cluster.ForTest(t).WithRights(t, "config/rbac/rbac.yaml")
		operator := cluster.Run(t, patients())
		cluster.Create(t, configMap(map[string]string{"key": "x"})) // needs no permissions
		operator.RunUntilQuiet(t)
	}
	_ = test
}

// The test lists what the operator and its handlers did, in order to declare it by kopf.Needs.
func ExampleOperator_UsedRights() {
	test := func(t *testing.T) {
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, patients())
		cluster.Create(t, configMap(nil))
		operator.RunUntilQuiet(t)
		for _, rule := range operator.UsedRights() {
			t.Log(rule.APIGroups, rule.Resources, rule.Verbs)
		}
	}
	_ = test
}

func ExampleExplore() {
	test := func(t *testing.T) {
		kopftest.Explore(t, func() kopftest.Scenario {
			return kopftest.Scenario{
				Given:    kopftest.Given{Objects: []client.Object{configMap(nil)}},
				Operator: func() []kopf.Option { return []kopf.Option{patients()} },
				Steps: []func(testing.TB, *kopftest.Cluster){func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, configMap(nil), func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"key": "x"} })
				}},
			}
		}, kopftest.WithPairs(), kopftest.WithMaxPlans(200))
	}
	_ = test
}

func ExampleUpgrade() {
	discharge := func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }
	test := func(t *testing.T) {
		kopftest.Upgrade(t, func() kopftest.Versions {
			return kopftest.Versions{
				Scenario: kopftest.Scenario{ // the old version
					Given:    kopftest.Given{Objects: []client.Object{configMap(map[string]string{"key": "w"})}},
					Operator: func() []kopf.Option { return []kopf.Option{patients()} },
					Steps: []func(testing.TB, *kopftest.Cluster){func(t testing.TB, c *kopftest.Cluster) {
						kopftest.Edit(t, c, configMap(nil), func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"key": "x"} })
					}},
				},
				New:   func() []kopf.Option { return []kopf.Option{patients().OnDelete("discharge", discharge)} },
				Allow: []string{"patch configmaps/*"}, // the delete handler needs a finalizer
			}
		})
	}
	_ = test
}

func ExampleWalk() {
	test := func(t *testing.T) {
		kopftest.Walk(t, "config/crd/databases.yaml", func() kopftest.Scenario {
			return kopftest.Scenario{Operator: func() []kopf.Option { return []kopf.Option{patients()} }}
		}, 20, kopftest.WithSeed(17))
	}
	_ = test // the path is relative to the directory of the test
}

// The assertions of the examples pass.
func TestExamples_Pass(t *testing.T) {
	g := NewWithT(t)
	got := kopftest.Invoke(t, patient, configMap(nil))
	g.Expect(got.Outcome.Delay).To(Equal(10 * time.Minute))
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{configMap(nil)}}, patients())
	g.Expect(report.RequeueAfter).To(Equal(10 * time.Minute))
	shared, orders := kopftest.Memory(t), configMap(nil)
	shared.Create(t, orders)
	g.Expect(kopftest.Invoke(t, secretOf, orders, kopftest.WithCluster(shared)).Outcome.Err).NotTo(HaveOccurred())
	shared.Get(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
	again := kopftest.Invoke(t, secretOf, orders, kopftest.WithCluster(shared))
	g.Expect(apierrors.IsAlreadyExists(again.Outcome.Err)).To(BeTrue())
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(configMap(nil)))
		operator := cluster.Run(t, patients())
		<-time.After(time.Hour)
		kopftest.Edit(t, cluster, configMap(nil), func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"key": "x"} })
		operator.RunUntilQuiet(t)
		NewWithT(t).Expect(kopftest.Object(t, cluster, configMap(nil))()).To(kopftest.HaveHandled())
	})
}
