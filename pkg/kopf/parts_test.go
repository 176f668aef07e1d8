package kopf_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// A part that an option adds answers all questions of the operator for itself.
func TestParts_AnAddedPartAnswersForItself(t *testing.T) {
	configMaps := func() kopf.Option {
		return kopf.For(&corev1.ConfigMap{}).OnCreate("created", func(context.Context, *kopf.Request[configMap]) error { return nil })
	}
	mistaken := kopf.WithPart(operator.Part{Name: "mistaken", Mistakes: func() []error { return []error{errors.New("the part has a mistake")} }})
	for name, err := range map[string]error{
		"CheckDeclaration without a manager": kopf.New(nil, configMaps(), mistaken).CheckDeclaration(),
		"WriteRights":                        kopf.WriteRights(&strings.Builder{}, clientgoscheme.Scheme, rights.Options{Name: "x"}, configMaps(), mistaken),
	} {
		if err == nil || !strings.Contains(err.Error(), "the part has a mistake") {
			t.Errorf("%s returned %v", name, err)
		}
	}
	var roles strings.Builder
	needs := kopf.WithPart(operator.Part{Name: "needs", Rights: func(string) []rbac.Need {
		return []rbac.Need{{Group: "example.com", Resource: "settings", Verbs: []string{"get"}, Level: rbac.Needed, Reason: "settings"}}
	}})
	if err := kopf.WriteRights(&roles, clientgoscheme.Scheme, rights.Options{Name: "x"}, configMaps(), needs); err != nil || !strings.Contains(roles.String(), "settings") {
		t.Errorf("WriteRights returned %v and wrote %s", err, roles.String())
	}
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		var reason error
		var steps []string
		var op *kopf.Operator
		part := kopf.WithPart(operator.Part{
			Name: "part", NotReady: func() []error { return []error{reason} },
			Check: func(kinds []engine.Kind) []error { steps = append(steps, "check "+kinds[0].GVK.Kind); return nil },
			Open: func(context.Context) (operator.Running, error) {
				steps = append(steps, "open")
				return operator.Running{Close: func() { steps = append(steps, "close") }}, nil
			},
		})
		running := cluster.RunManager(t, func(mgr manager.Manager) error {
			op = kopf.New(mgr, configMaps(), part)
			return mgr.Add(op)
		})
		<-time.After(time.Minute)
		if err := op.Readyz(nil); err != nil {
			t.Errorf("Readyz returned %v", err)
		}
		if reason = errors.New("no settings"); op.Readyz(nil) == nil {
			t.Error("the operator is ready although the part is not")
		}
		running.Stop(t)
		if got := strings.Join(steps, ", "); got != "check ConfigMap, open, close" {
			t.Errorf("the part had the steps %s", got)
		}
	})
}

// The permissions of a shard can be written outside of the cluster, where its namespace and its name are not known.
func TestWriteRights_OfAShardOutsideOfTheCluster(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("created", func(context.Context, *kopf.Request[configMap]) error { return nil })
	err := kopf.WriteRights(&strings.Builder{}, clientgoscheme.Scheme, rights.Options{Name: "x", Namespace: "ops"}, configMaps, kopf.WithSharding(sharding.ControllerRing("r")))
	if err != nil {
		t.Error(err)
	}
}
