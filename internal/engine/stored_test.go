package engine_test

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	annotation = progress.DefaultPrefix + "/"
	baseline   = annotation + "last-handled-configuration"
)

// begins is when operators start in virtual time.
var begins = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// An operator that starts finds these annotations on an object, and handles it for a while.
func operate(t *testing.T, found map[string]string, lasts time.Duration, handler *kopf.Resource[*corev1.ConfigMap]) (*kopftest.Report, map[string]string) {
	t.Helper()
	obj := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", Annotations: maps.Clone(found)},
		Data:       map[string]string{"color": "red"},
	}
	report := kopftest.Cycle(t, kopftest.Given{Now: begins, Objects: []client.Object{obj}, For: lasts}, handler)
	left := obj.DeepCopy()
	if !report.Get(t, left) {
		t.Fatal("the object does not exist")
	}
	return report, left.Annotations
}

func TestEngine_RemovesNullsFromObjectsAtRest(t *testing.T) {
	const handled = `{"data":{"color":"red"}}`
	for _, key := range []string{annotation + "paint", annotation + "pinned-configuration", "runtime." + annotation + "pinned-configuration"} {
		t.Run(key, func(t *testing.T) {
			paint := func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }
			report, left := operate(t, map[string]string{baseline: handled, key: "null"}, time.Second, kopf.For(&corev1.ConfigMap{}).OnUpdate("paint", paint))
			if len(report.Calls) > 0 || len(report.Writes) != 1 || !maps.Equal(left, map[string]string{baseline: handled}) {
				t.Errorf("calls: %v, writes: %v, left: %v", report.Calls, report.Writes, left)
			}
		})
	}
}
