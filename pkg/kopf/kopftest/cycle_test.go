package kopftest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func TestACycle(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	report := kopftest.Cycle(t, kopftest.Given{Now: noon, Objects: []client.Object{configMap(map[string]string{"color": "red"})}},
		kopf.For(&corev1.ConfigMap{}).
			OnCreate("paint", func(_ context.Context, req *cmRequest) error {
				req.Object.Data["painted"] = time.Now().UTC().Format("15:04")
				req.Eventf("Normal", "Painted", "Paint", "it is red")
				return nil
			}).
			OnCreate("busy", func(context.Context, *cmRequest) error { return kopf.Temporary(errors.New("no time"), time.Hour) }).
			OnDelete("drop", func(context.Context, *cmRequest) error { return nil }))

	obj := configMap(nil)
	g.Expect(report.Get(t, obj)).To(BeTrue())
	g.Expect(obj.Data).To(HaveKeyWithValue("painted", "12:00"))
	g.Expect(obj.Finalizers).To(ConsistOf(kopf.DefaultFinalizer))
	g.Expect(report.Handlers()).To(Equal([]string{"paint", "busy"}))
	g.Expect(report.Requests()).To(Equal([]string{"patch configmaps/orders", "patch configmaps/orders"}))
	g.Expect(report.Requeue).To(BeNumerically("~", time.Hour, time.Second))
	g.Expect(report.Record(t, obj, "busy").Message).To(Equal("no time"))
	g.Expect(report.Record(t, obj, "busy").Delayed).To(BeTemporally("~", noon.Add(time.Hour), time.Second))
	g.Expect(report.Record(t, obj, "paint").Success).To(BeTrue())
	g.Expect(report.Events).To(ContainElement(HaveField("Reason", "Painted")))
	g.Expect(report.Errors).To(BeEmpty())
}
