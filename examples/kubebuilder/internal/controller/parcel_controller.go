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

// A ParcelReconciler is a reconciler that kopf calls. Its Reconcile is that of a project without kopf.
type ParcelReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile puts a label on a parcel.
func (r *ParcelReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var parcel shopv1.Parcel
	if err := r.Get(ctx, req.NamespacedName, &parcel); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	label := "to " + parcel.Spec.Address
	if parcel.Status.Label == label {
		return ctrl.Result{}, nil
	}
	parcel.Status.Label = label
	log.FromContext(ctx).Info("Labelled", "label", label)
	return ctrl.Result{}, r.Status().Update(ctx, &parcel)
}

// SetupWithManager adds the reconciler and the handlers to the manager. Without kopf, its only statement was
//
//	ctrl.NewControllerManagedBy(mgr).For(&shopv1.Parcel{}).Named("parcel").Complete(r)
func (r *ParcelReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return kopf.SetupWithManager(mgr, r.parcels(), parcelNeeds())
}

// parcels declares the reconciler and the handlers.
func (r *ParcelReconciler) parcels() kopf.Option {
	return kopf.For(&shopv1.Parcel{}).
		OnReconcile("main", kopf.FromReconciler[*shopv1.Parcel](r)).
		OnDelete("recall", recall)
}

// parcelNeeds declares the requests of the reconciler: it writes the status with update, and kopf writes patches.
func parcelNeeds() kopf.Option {
	return kopf.NeedsRules(rbacv1.PolicyRule{
		APIGroups: []string{shopv1.GroupVersion.Group}, Resources: []string{"parcels/status"}, Verbs: []string{"update"},
	})
}

func recall(ctx context.Context, req *kopf.Request[*shopv1.Parcel]) error {
	log.FromContext(ctx).Info("Recalled", "label", req.Object.Status.Label)
	return nil
}
