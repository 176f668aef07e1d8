package controller

import (
	"context"
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// OrderRequest is the request that the handlers of orders receive.
type OrderRequest = kopf.Request[*shopv1.Order]

// OrderHandlers replaces an OrderReconciler.
type OrderHandlers struct {
	Warehouse *Warehouse
}

// SetupWithManager adds the handlers to the manager. The needs are those of reconcilers that kopf does not call.
func (h *OrderHandlers) SetupWithManager(mgr ctrl.Manager, needs ...kopf.Option) error {
	return kopf.SetupWithManager(mgr, append(needs, h.orders())...)
}

// orders declares the handlers. Tests call it without a manager.
func (h *OrderHandlers) orders() kopf.Option {
	return kopf.For(&shopv1.Order{}, kopf.WithConditions("Reserved")).
		OnField("reserve", "spec", h.reserve, kopf.ReportCondition("Reserved"), kopf.Retries(100)).
		OnDelete("release", h.release)
}

// reserve reserves the items. The engine calls it for a new order and after changes of the spec.
func (h *OrderHandlers) reserve(ctx context.Context, req *OrderRequest) error {
	order := req.Object
	err := h.Warehouse.Reserve(client.ObjectKeyFromObject(order), order.Spec.Item, order.Spec.Quantity)
	switch {
	case errors.Is(err, ErrUnknownItem):
		return kopf.Permanent(err) // the engine retries the handler only after an edit of the order
	case errors.Is(err, ErrSoldOut):
		return kopf.Temporary(err, time.Second) // the engine retries the handler, because the stock can grow
	case err != nil:
		return err // the engine retries the handler after the backoff
	}
	order.Status.Reserved = order.Spec.Quantity // the engine writes the change
	log.FromContext(ctx).Info("Reserved", "item", order.Spec.Item, "quantity", order.Spec.Quantity)
	return nil
}

// release frees the reserved items. A finalizer keeps the order until release has succeeded.
func (h *OrderHandlers) release(ctx context.Context, req *OrderRequest) error {
	h.Warehouse.Release(client.ObjectKeyFromObject(req.Object))
	log.FromContext(ctx).Info("Released")
	return nil
}
