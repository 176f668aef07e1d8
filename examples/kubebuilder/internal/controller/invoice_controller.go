package controller

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// An InvoiceReconciler is an ordinary reconciler that kopf does not call.
type InvoiceReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// InvoiceNeeds declares the permissions of the InvoiceReconciler, which kopf cannot derive. An operator of kopf checks them
// at its start, and "make manifests" writes them into the role of the manager.
func InvoiceNeeds() kopf.Option {
	return kopf.NeedsRules(
		rbacv1.PolicyRule{APIGroups: []string{shopv1.GroupVersion.Group}, Resources: []string{"invoices"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{shopv1.GroupVersion.Group}, Resources: []string{"invoices/status"}, Verbs: []string{"update"}},
	)
}

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
