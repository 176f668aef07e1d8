package kopf_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// ACT-04: the operator is not ready while startup activities run.
func TestReadyz_DuringStartup(t *testing.T) {
	var operator *kopf.Operator
	var ready, healthy error
	operator = newOperator(&fakeManager{}, kopf.OnStartup("ask", func(context.Context) error {
		ready, healthy = operator.Readyz(nil), operator.Healthz(nil)
		return nil
	}))
	equal(t, "ready before the start", operator.Readyz(nil), error(nil))
	equal(t, "healthy before the start", operator.Healthz(nil), error(nil))
	_ = operator.Start(t.Context())
	if ready == nil {
		t.Error("ACT-04: Readyz returned no error during the startup")
	}
	equal(t, "healthy during the startup", healthy, error(nil))
	equal(t, "healthy after the stop", operator.Healthz(nil), error(nil))
}

// A replica that waits for leadership is ready, whatever its options. Otherwise, a rolling update would wait for it, and it for the old leader.
func TestReadyz_WaitingReplica(t *testing.T) {
	handle := func(context.Context, *kopf.Request[configMap]) error { return nil }
	for name, options := range map[string][]kopf.Option{
		"plain":              {kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle)},
		"namespaces":         {kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle), kopf.WithNamespaces("def*")},
		"namespace function": {kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle), kopf.WithNamespaceFunc(func(*corev1.Namespace) bool { return true })},
		"peering":            {kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle), kopf.WithPeering(peering.Options{Name: "default"})},
		"watch selector":     {kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle), kopf.WithWatchSelector("team")},
		"Events":             {kopf.For(&corev1.ConfigMap{}).OnEventAbout("about", clusterevents.Selector{}, func(context.Context, *kopf.Request[configMap], *corev1.Event) error { return nil })},
		"optional kind":      {kopf.For(&corev1.ConfigMap{}, kopf.WhenServed()).OnCreate("create", handle)},
		"selected kinds": {kopf.ForKinds(kopf.Kinds("configmaps"), func(metav1.APIResource) kopf.Option {
			return kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle)
		})},
		"version":   {kopf.For(&corev1.ConfigMap{}).OnCreate("create", handle), kopf.OnVersion("version", func(context.Context, version.Info, version.Info) error { return nil })},
		"admission": {kopf.For(&corev1.ConfigMap{}).Validate("check", func(context.Context, *webhooks.Request[configMap]) error { return nil })},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t)
				run := func(options ...kopf.Option) (op *kopf.Operator) {
					cluster.RunManager(t, func(mgr manager.Manager) error {
						op = kopf.New(mgr, options...)
						return mgr.Add(op)
					}, func(o *manager.Options) {
						o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "replicas", "default"
					})
					<-time.After(time.Minute)
					return op
				}
				run(kopf.For(&corev1.Secret{}).OnCreate("create", func(context.Context, *kopf.Request[*corev1.Secret]) error { return nil }))
				if err := run(options...).Readyz(nil); err != nil {
					t.Errorf("the waiting replica is not ready: %v", err)
				}
			})
		})
	}
}
