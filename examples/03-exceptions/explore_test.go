package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/03-exceptions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Retries, timeouts and permanent errors lead to the same state under every fault.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		scenario := newScenario(t)
		scenario.Steps = []func(testing.TB, *kopftest.Cluster){
			func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newBackup()) },
			func(t testing.TB, c *kopftest.Cluster) {
				kopftest.Edit(t, c, newBackup(), func(backup *v1.Backup) { backup.Spec.Target = "s3://backups/orders" })
			},
			func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newBackup()) },
		}
		return scenario
	}, kopftest.WithMaxPlans(10))
}

// The status describes the current target. The test ignores the snapshot, which shows the volume at the time of the creation.
func TestWalk(t *testing.T) {
	kopftest.Walk(t, "config/crd", func() kopftest.Scenario {
		scenario := newScenario(t)
		scenario.Ignore = []string{"status.snapshot"}
		return scenario
	}, 5)
}

func newScenario(t *testing.T) kopftest.Scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return kopftest.Scenario{
		Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
		Operator: func() []kopf.Option { return []kopf.Option{backups()} },
	}
}

// newBackup returns a backup with a target that is not supported.
func newBackup() *v1.Backup {
	return &v1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"},
		Spec:       v1.BackupSpec{Volume: "orders", Target: "ftp://backups/orders"},
	}
}
