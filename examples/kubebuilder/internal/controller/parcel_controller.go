package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A ParcelReconciler is a reconciler that kopf calls. Only SetupWithManager differs from a project without kopf.
type ParcelReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// The reconciler writes the status with update; kopf writes patches.
//
// +kubebuilder:rbac:groups=shop.example.com,resources=parcels,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=shop.example.com,resources=parcels/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

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
	parcels := kopf.For(&shopv1.Parcel{}).
		OnReconcile("main", kopf.FromReconciler[*shopv1.Parcel](r)).
		OnDelete("recall", recall)
	return kopf.SetupWithManager(mgr, parcels)
}

func recall(ctx context.Context, req *kopf.Request[*shopv1.Parcel]) error {
	log.FromContext(ctx).Info("Recalled", "label", req.Object.Status.Label)
	return nil
}
