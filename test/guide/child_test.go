package guide

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/18-conditions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// This file contains code of docs/coming-from-a-reconciler.md: a reconciler with a child object, and equivalent handlers.

const bucketFinalizer = "example.com/bucket"

type BucketReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Provider *Provider
}

func (r *BucketReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	bucket := &v1.Bucket{}
	if err := r.Get(ctx, req.NamespacedName, bucket); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !bucket.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(bucket, bucketFinalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.Provider.Drop(ctx, bucket.Name); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(bucket, bucketFinalizer)
		return ctrl.Result{}, r.Update(ctx, bucket)
	}
	if controllerutil.AddFinalizer(bucket, bucketFinalizer) {
		if err := r.Update(ctx, bucket); err != nil {
			return ctrl.Result{}, err
		}
	}
	access := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: bucket.Namespace, Name: bucket.Name + "-access"}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, access, func() error {
		access.Data = map[string]string{"store": bucket.Spec.Store}
		return controllerutil.SetControllerReference(bucket, access, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}
	meta.SetStatusCondition(&bucket.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Furnished", Message: "it can be used",
		ObservedGeneration: bucket.Generation,
	})
	return ctrl.Result{RequeueAfter: 10 * time.Minute}, r.Status().Update(ctx, bucket)
}

func (r *BucketReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Bucket{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

type BucketRequest = kopf.Request[*v1.Bucket]

type Buckets struct{ Provider *Provider }

func (b *Buckets) Furnish(ctx context.Context, req *BucketRequest) error {
	bucket := req.Object
	access := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(bucket, "access")}, // <name>-access
		Data:       map[string]string{"store": bucket.Spec.Store},
	}
	if _, err := children.Of(bucket, req.Client, children.FieldOwner("buckets")).Apply(ctx, access); err != nil {
		return err
	}
	req.Conditions().True("Ready", "Furnished", "it can be used")
	return nil
}

func (b *Buckets) Drop(ctx context.Context, req *BucketRequest) error {
	return b.Provider.Drop(ctx, req.Object.Name)
}

func (b *Buckets) operator() []kopf.Option {
	buckets := kopf.For(&v1.Bucket{}).
		OnReconcile("furnish", b.Furnish, kopf.Interval(10*time.Minute)).
		Owns(&corev1.ConfigMap{}).
		OnDelete("drop", b.Drop)
	return []kopf.Option{
		buckets,
		kopf.Needs(&corev1.ConfigMap{}, "get", "create", "patch"), // permissions for children.Apply
		kopf.WithFinalizer(bucketFinalizer),                       // the finalizer of existing objects
	}
}

func (b *Buckets) SetupWithManager(mgr ctrl.Manager) error {
	return kopf.SetupWithManager(mgr, b.operator()...)
}

// The reconciler and the handlers have the same results. The handlers also continue with an object of the reconciler.
func TestReconcilerWithChild_AndHandlersAgree(t *testing.T) {
	plain := func(p *Provider) func(ctrl.Manager) error {
		return func(mgr ctrl.Manager) error {
			return (&BucketReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Provider: p}).SetupWithManager(mgr)
		}
	}
	handlers := func(p *Provider) func(ctrl.Manager) error { return (&Buckets{Provider: p}).SetupWithManager }
	for name, operators := range map[string]struct {
		first, then func(*Provider) func(ctrl.Manager) error
	}{
		"reconciler": {plain, plain},
		"handlers":   {handlers, handlers},
		"converted":  {plain, handlers},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkChild(t, operators.first, operators.then) })
		})
	}
}

func checkChild(t *testing.T, first, then func(*Provider) func(ctrl.Manager) error) {
	g, provider := NewWithT(t), &Provider{}
	g.SetDefaultEventuallyTimeout(time.Minute)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(v1.AddToScheme(scheme)).To(Succeed())
	bucket := &v1.Bucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "photos"},
		Spec:       v1.BucketSpec{Store: "north", SizeGiB: 1},
	}
	access := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "photos-access"}}
	cluster := kopftest.Memory(t, kopftest.Types(scheme), kopftest.CRDs("../../examples/18-conditions/config/crd"))
	leadsTo := func(store string) {
		t.Helper()
		g.Eventually(func(g Gomega) {
			g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(access), access)).To(Succeed())
			g.Expect(access.Data).To(Equal(map[string]string{"store": store}))
			g.Expect(access.OwnerReferences).To(HaveLen(1))
		}).Should(Succeed())
	}

	operator := cluster.RunManager(t, first(provider))
	cluster.Create(t, bucket)
	leadsTo("north")
	g.Eventually(kopftest.Object(t, cluster, bucket)).Should(kopftest.HaveCondition("Ready", metav1.ConditionTrue))
	operator.Stop(t)

	cluster.RunManager(t, then(provider))
	kopftest.Edit(t, cluster, bucket, func(b *v1.Bucket) { b.Spec.Store = "south" })
	leadsTo("south")
	cluster.Delete(t, access)
	leadsTo("south")
	cluster.Get(t, bucket)
	g.Expect(bucket.Finalizers).To(Equal([]string{bucketFinalizer}))

	cluster.Delete(t, bucket)
	g.Eventually(func() error { return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(bucket), bucket) }).
		ShouldNot(Succeed())
	g.Expect(provider.seen()).To(HaveEach("drop photos"), "want only calls that drop the bucket; a stale cache may cause a second call")
}

// The handlers need only the permissions of their role.
func TestHandlersWithChild_RunUnderTheirRole(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g, provider := NewWithT(t), &Provider{}
	g.SetDefaultEventuallyTimeout(patience)
	crds := envtest.CRDInstallOptions{Paths: []string{"../../examples/18-conditions/config/crd"}}
	_, err := envtest.InstallCRDs(cfg, crds)
	g.Expect(err).NotTo(HaveOccurred())
	k8s := runWithRights(t, func(ctrl.Manager) []kopf.Option { return (&Buckets{Provider: provider}).operator() })
	bucket := &v1.Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "photos"}, Spec: v1.BucketSpec{Store: "north", SizeGiB: 1}}
	g.Expect(k8s.Create(t.Context(), bucket)).To(Succeed())
	g.Eventually(func() (*v1.Bucket, error) {
		err := k8s.Get(t.Context(), client.ObjectKeyFromObject(bucket), bucket)
		return bucket, err
	}).Should(kopftest.HaveCondition("Ready", metav1.ConditionTrue))
	g.Expect(k8s.Delete(t.Context(), bucket)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(k8s.Get(t.Context(), client.ObjectKeyFromObject(bucket), bucket))
	}).Should(BeTrue())
	g.Expect(provider.seen()).To(ContainElement("drop photos"))
}
