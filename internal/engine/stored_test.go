package engine_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
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
	report := kopftest.Cycle(t, kopftest.Given{Now: begins, Objects: []client.Object{obj}, Duration: lasts}, handler)
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
			maps.DeleteFunc(left, func(key, _ string) bool { return strings.HasPrefix(key, annotation+"state-of-") })
			if len(report.Calls) > 0 || len(report.Writes) != 1 || !maps.Equal(left, map[string]string{baseline: handled}) {
				t.Errorf("calls: %v, writes: %v, left: %v", report.Calls, report.Writes, left)
			}
		})
	}
}

func stamp(shift time.Duration) string {
	return begins.Add(shift).Format("2006-01-02T15:04:05.000000-07:00")
}

func TestEngine_LimitsDelaysOfOtherClocks(t *testing.T) {
	for name, record := range map[string]string{
		"a cycle of seconds, of kopf": fmt.Sprintf(`{"started":%q,"delayed":%q,"purpose":"create","retries":1,"success":false,"failure":false}`,
			stamp(time.Hour-time.Second), stamp(time.Hour+time.Second)),
		"a cycle of days": fmt.Sprintf(`{"started":%q,"delayed":%q,"purpose":"create","retries":99,"success":false,"failure":false,"attempted":%q}`,
			stamp(-24*time.Hour), stamp(time.Hour+2*time.Second), stamp(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			paint := func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }
			report, _ := operate(t, map[string]string{annotation + "paint": record}, 10*time.Second, kopf.For(&corev1.ConfigMap{}).OnCreate("paint", paint))
			if len(report.Calls) != 1 || report.Calls[0].Began.Sub(begins).Round(time.Second) != 2*time.Second {
				t.Errorf("calls: %v, want one after the delay of 2 seconds", report.Calls)
			}
		})
	}
}

func TestEngine_CallsHandlersBeforeTheyTimeOut(t *testing.T) {
	record := func(retries int) string {
		return fmt.Sprintf(`{"started":%q,"purpose":"create","retries":%d,"success":false,"failure":false}`, stamp(-time.Hour), retries)
	}
	paint := func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }
	for retries, calls := range []int{1, 0} {
		report, left := operate(t, map[string]string{annotation + "paint": record(retries)}, time.Second,
			kopf.For(&corev1.ConfigMap{}).OnCreate("paint", paint, kopf.Timeout(10*time.Minute)))
		if len(report.Calls) != calls || left[annotation+"paint"] != "" {
			t.Errorf("%d attempts before: calls: %v, left: %v", retries, report.Calls, left)
		}
	}
}
