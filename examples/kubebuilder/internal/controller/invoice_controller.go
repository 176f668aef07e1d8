package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
)

// An InvoiceReconciler is an ordinary reconciler that does not use kopf.
type InvoiceReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=shop.example.com,resources=invoices,verbs=get;list;watch
// +kubebuilder:rbac:groups=shop.example.com,resources=invoices/status,verbs=get;update;patch

// Reconcile calculates the total of an invoice.
func (r *InvoiceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var invoice shopv1.Invoice
	if err := r.Get(ctx, req.NamespacedName, &invoice); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	total := invoice.Spec.Cents * 119 / 100
	if invoice.Status.Total == total {
		return ctrl.Result{}, nil
	}
	invoice.Status.Total = total
	log.FromContext(ctx).Info("Calculated", "total", total)
	return ctrl.Result{}, r.Status().Update(ctx, &invoice)
}

// SetupWithManager adds the reconciler to the manager.
func (r *InvoiceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&shopv1.Invoice{}).Named("invoice").Complete(r)
}
