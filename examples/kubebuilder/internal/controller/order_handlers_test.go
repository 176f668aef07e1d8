package controller

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func lamps(quantity int32) *shopv1.Order {
	return &shopv1.Order{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lamps"},
		Spec:       shopv1.OrderSpec{Item: "lamp", Quantity: quantity},
	}
}

func TestReserve_RetriesWhenSoldOut(t *testing.T) {
	g := NewWithT(t)
	handlers := &OrderHandlers{Warehouse: NewWarehouse(map[string]int32{"lamp": 2})}
	got := kopftest.Invoke(t, handlers.reserve, lamps(3))
	g.Expect(got.Outcome.Err).To(MatchError(ErrSoldOut))
	g.Expect(got.Outcome.Delay).To(Equal(time.Second))
	g.Expect(handlers.Warehouse.Left("lamp")).To(BeEquivalentTo(2))
}

func TestOrderHandlers_TolerateFaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := shopv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kopftest.Check(t, func() kopftest.Scenario {
		handlers := &OrderHandlers{Warehouse: NewWarehouse(map[string]int32{"lamp": 5})}
		return kopftest.Scenario{
			Given:    kopftest.Given{Scheme: scheme, Objects: []client.Object{lamps(2)}},
			Operator: func() []kopf.Option { return []kopf.Option{handlers.orders()} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, lamps(0), func(order *shopv1.Order) { order.Spec.Quantity = 4 })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, lamps(0)) },
			},
			ExternalState: func() any { return fmt.Sprint(handlers.Warehouse.Left("lamp")) },
		}
	})
}
