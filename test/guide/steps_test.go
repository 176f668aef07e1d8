package guide

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/18-conditions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A reconciler with several steps as handlers. Buckets represent queues. docs/coming-from-a-reconciler.md refers to this file.

var errStarting = errors.New("the server is starting")

type Queues struct{ Provider *Provider }

func (q *Queues) operator() []kopf.Option {
	queues := kopf.For(&v1.Bucket{}).
		OnReconcile("service", q.Service).
		OnReconcile("server", q.Server, kopf.After("service")).
		OnReconcile("plugins", q.Plugins, kopf.After("server")).
		OnCreate("announce", q.Announce, kopf.RetryOnRelatedChange()).
		OnDelete("stop", q.Stop).
		Owns(&corev1.Service{}).
		Owns(&appsv1.StatefulSet{})
	return []kopf.Option{
		queues,
		kopf.WithFinalizer("deletion.finalizers.queues.example.com"), // the finalizer of existing objects
		kopf.Needs(&corev1.Service{}, "get", "create", "patch"),
		kopf.Needs(&appsv1.StatefulSet{}, "get", "create", "patch"),
		kopf.Needs(&corev1.Secret{}, "list", "watch"), // for Track
	}
}

func (q *Queues) Service(ctx context.Context, req *BucketRequest) error {
	_, err := children.Of(req.Object, req.Client, children.FieldOwner("queues")).Apply(ctx, serviceOf(req.Object))
	return err
}

func (q *Queues) Server(ctx context.Context, req *BucketRequest) error {
	certificate := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: req.Object.Name + "-tls"}}
	if err := req.Track(ctx, certificate); err != nil { // the creation and each change of the Secret call the handlers
		req.Conditions().False("Ready", "NoCertificate", "the Secret "+certificate.Name+" is missing")
		return err
	}
	_, err := children.Of(req.Object, req.Client, children.FieldOwner("queues")).Apply(ctx, serverOf(req.Object, certificate.ResourceVersion))
	return err
}

func (q *Queues) Plugins(ctx context.Context, req *BucketRequest) error {
	if !isReady(ctx, req) {
		req.Conditions().False("Ready", "Starting", "the server is starting")
		return nil // the status of the StatefulSet calls the handler again
	}
	if _, err := q.Provider.Ensure(ctx, req.Object.Name); errors.Is(err, errBusy) {
		req.RequeueAfter(15 * time.Second) // again in 15 seconds, or earlier if something changes
		return nil
	} else if err != nil {
		return err
	}
	req.Conditions().True("Ready", "Configured", "the server is ready")
	return nil
}

// Announce is called until the server is ready, and then never again.
func (q *Queues) Announce(ctx context.Context, req *BucketRequest) error {
	if !isReady(ctx, req) {
		return kopf.Temporary(errStarting, time.Hour) // or earlier, when the StatefulSet changes
	}
	req.Eventf("Normal", "Available", "Announce", "the server accepts connections")
	return nil
}

func (q *Queues) Stop(ctx context.Context, req *BucketRequest) error {
	return q.Provider.Drop(ctx, req.Object.Name)
}

func serviceOf(queue *v1.Bucket) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: queue.Name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": queue.Name}, Ports: []corev1.ServicePort{{Port: 5671}}},
	}
}

func serverOf(queue *v1.Bucket, certificate string) *appsv1.StatefulSet {
	selected := map[string]string{"app": queue.Name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: queue.Name},
		Spec: appsv1.StatefulSetSpec{ServiceName: queue.Name, Selector: &metav1.LabelSelector{MatchLabels: selected}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: selected, Annotations: map[string]string{"certificate": certificate}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "queue", Image: "queue"}}},
		}},
	}
}

func isReady(ctx context.Context, req *BucketRequest) bool {
	server := &appsv1.StatefulSet{}
	err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), server)
	return err == nil && server.Status.ReadyReplicas > 0
}

// The handlers are called when something changes, without a delay of their own.
func TestSteps_FollowChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, provider := NewWithT(t), &Provider{}
		scheme := runtime.NewScheme()
		g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		g.Expect(v1.AddToScheme(scheme)).To(Succeed())
		cluster := kopftest.Memory(t, kopftest.Types(scheme), kopftest.CRDs("../../examples/18-conditions/config/crd"))
		operator := cluster.Run(t, (&Queues{Provider: provider}).operator()...)
		queue := &v1.Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}, Spec: v1.BucketSpec{Store: "north", SizeGiB: 1}}
		meta := metav1.ObjectMeta{Namespace: "default", Name: "orders"}
		<-time.After(time.Minute)

		cluster.Create(t, queue)
		<-time.After(time.Second)
		g.Expect(operator.Handlers(queue)).To(ContainElements("announce", "service", "server"))
		g.Expect(operator.Handlers(queue)).NotTo(ContainElement("plugins"), "the step before has failed")
		cluster.Get(t, queue)
		g.Expect(queue).To(kopftest.HaveCondition("Ready", metav1.ConditionFalse).WithReason("NoCertificate"))

		<-time.After(time.Hour)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-tls"}}
		cluster.Create(t, secret)
		synctest.Wait()
		server := &appsv1.StatefulSet{ObjectMeta: meta}
		cluster.Get(t, server)
		g.Expect(server.Spec.Template.Annotations).To(HaveKeyWithValue("certificate", secret.ResourceVersion))

		kopftest.Edit(t, cluster, server, func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 1 })
		synctest.Wait()
		g.Expect(provider.seen()).To(Equal([]string{"ensure orders"}), "the provider is busy at the first call")
		announced := func(e kopftest.Event) bool { return e.Reason == "Available" }
		<-time.After(time.Second)
		g.Expect(slices.ContainsFunc(operator.Events(), announced)).To(BeTrue())
		<-time.After(15 * time.Second)
		g.Expect(provider.seen()).To(Equal([]string{"ensure orders", "ensure orders"}))
		cluster.Get(t, queue)
		g.Expect(queue).To(kopftest.HaveCondition("Ready", metav1.ConditionTrue))

		kopftest.Edit(t, cluster, secret, func(s *corev1.Secret) { s.StringData = map[string]string{"tls.key": "new"} })
		synctest.Wait()
		cluster.Get(t, secret)
		cluster.Get(t, server)
		g.Expect(server.Spec.Template.Annotations).To(HaveKeyWithValue("certificate", secret.ResourceVersion))

		cluster.Get(t, queue)
		g.Expect(queue.Finalizers).To(Equal([]string{"deletion.finalizers.queues.example.com"}))
		calls := len(provider.seen())
		cluster.Delete(t, queue)
		synctest.Wait()
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(queue), queue)).NotTo(Succeed())
		g.Expect(provider.seen()[calls:]).To(Equal([]string{"drop orders"}), "no step restores what the delete handler has removed")
	})
}

// withCertificates triggers the handlers when a certificate changes that the cache of the manager does not contain.
func withCertificates(mgr ctrl.Manager, queues *kopf.Resource[*v1.Bucket]) error {
	certificates, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS))}},
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(certificates); err != nil {
		return err
	}
	queues.TriggerFrom(source.Kind(certificates, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(queueOfCertificate)))
	return nil
}

func queueOfCertificate(_ context.Context, secret *corev1.Secret) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: secret.Namespace, Name: secret.Labels["queue"]}}}
}

// The API server selects Secrets by their type, so the test needs a real one.
func TestSteps_WithCertificatesOutsideOfTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	_, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{Paths: []string{"../../examples/18-conditions/config/crd"}})
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(v1.AddToScheme(scheme)).To(Succeed())
	direct, err := client.New(cfg, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	cluster := (&kopftest.Cluster{Client: direct, Config: cfg, Scheme: scheme}).ForTest(t)
	operator := cluster.RunManager(t, func(mgr ctrl.Manager) error {
		queues := kopf.For(&v1.Bucket{}).OnReconcile("server", func(context.Context, *BucketRequest) error { return nil })
		return errors.Join(withCertificates(mgr, queues), kopf.SetupWithManager(mgr, queues))
	}, func(options *manager.Options) {
		options.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.SelectorFromSet(labels.Set{"mine": "yes"})}}
	})
	queue := &v1.Bucket{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Spec: v1.BucketSpec{Store: "north", SizeGiB: 1}}
	cluster.Create(t, queue)
	g.Eventually(func() []string { return operator.Handlers(queue) }).Should(HaveLen(1))
	cluster.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate", Labels: map[string]string{"queue": "orders"}}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	})
	g.Eventually(func() []string { return operator.Handlers(queue) }).Should(HaveLen(2))
}
