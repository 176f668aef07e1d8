package kopf_test

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleResource_OnEvent() {
	kopf.For(&corev1.Pod{}).
		OnEvent("watch", func(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
			if req.Event == watch.Deleted {
				log.FromContext(ctx).Info("The Pod no longer exists", "phase", req.Object.Status.Phase) // the last known state
			}
			return nil
		})
}

func ExampleResource_OnEvent_types() {
	kopf.For(&corev1.Pod{}).
		OnEvent("watch", func(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
			switch req.Event {
			case watch.Added, watch.Modified:
				log.FromContext(ctx).Info("The Pod has changed", "phase", req.Object.Status.Phase)
			case watch.Deleted:
				log.FromContext(ctx).Info("The Pod no longer exists")
			default: // the object existed when the operator started
			}
			return nil
		})
}

func ExampleWhenServed() {
	databases := kopf.For(&Database{}, kopf.WhenServed()).
		OnCreate("provision", provision)
	_ = kopf.SetupWithManager(mgr, databases)
}

func ExampleForKinds() {
	all := kopf.ForKinds(kopf.Kinds("*.example.com", "category:data"), func(kind metav1.APIResource) kopf.Option {
		gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
		return kopf.For(kopf.Metadata(gvk)).
			OnCreate("audit", func(ctx context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
				log.FromContext(ctx).Info("Created", "kind", kind.Kind, "labels", req.Object.Labels)
				return nil
			})
	})
	_ = kopf.SetupWithManager(mgr, all)
}

func ExampleWithNamespaces() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	operator := kopf.New(mgr, databases, kopf.WithNamespaces("team-*, !team-legacy", "shared"))
	_ = mgr.Add(operator)
	// Later, for example when a configuration has changed:
	if err := operator.SetNamespaces("team-a", "team-b"); err != nil {
		fmt.Println(err)
	}
}

func ExampleWithNamespaceFunc() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	selector := labels.SelectorFromSet(labels.Set{"databases": "managed"})
	_ = kopf.SetupWithManager(mgr, databases, kopf.WithNamespaceFunc(func(namespace *corev1.Namespace) bool {
		return selector.Matches(labels.Set(namespace.Labels))
	}))
}

func ExampleWithWatchSelector() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	deployed := kopf.WithWatchSelector("!developer")
	_ = kopf.SetupWithManager(mgr, databases, deployed)
}

func ExampleWatchOnly() {
	running := kopf.WatchOnly(client.MatchingLabels{"app": "web"}, client.MatchingFields{"status.phase": "Running"})
	pods := kopf.For(&corev1.Pod{}, running).
		OnCreate("register", func(_ context.Context, req *kopf.Request[*corev1.Pod]) error {
			fmt.Println("running:", req.Object.Name)
			return nil
		})
	_ = kopf.SetupWithManager(mgr, pods)
}

func ExampleWatchSelectorFlag() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)
	watched := kopf.WatchSelectorFlag(flag.CommandLine) // for example --watch-selector=developer=alice
	flag.Parse()
	_ = kopf.SetupWithManager(mgr, databases, watched)
}

func ExampleWriteChanges() {
	kopf.For(&corev1.Pod{}).
		OnEvent("node", func(_ context.Context, req *kopf.Request[*corev1.Pod]) error {
			metav1.SetMetaDataLabel(&req.Object.ObjectMeta, "example.com/node", req.Object.Spec.NodeName)
			return nil
		}, kopf.WriteChanges(), kopf.Retries(5), kopf.Backoff(10*time.Second))
}

func ExampleResource_OnReconcile() {
	kopf.For(&Database{}).
		OnReconcile("service", func(ctx context.Context, req *DatabaseRequest) error {
			// Make the actual state match the desired state.
			address, err := cloud.Ensure(ctx, req.Object.Name, req.Object.Spec.Size)
			req.Object.Status.Address = address
			return err
		}, kopf.Interval(10*time.Minute)).
		Owns(&corev1.Service{})
}

func ExampleInterval() {
	kopf.For(&Database{}).
		OnReconcile("check", announce, kopf.Interval(time.Minute)) // the interval starts after each success; a change can trigger the handler earlier
}

func ExampleRequest_RequeueAfter() {
	kopf.For(&Database{}).
		OnReconcile("restore", func(ctx context.Context, req *DatabaseRequest) error {
			address, err := cloud.Ensure(ctx, req.Object.Name, req.Object.Spec.Size)
			if err == nil && address == "" {
				req.RequeueAfter(15 * time.Second) // the cloud is still working on it: try again in 15 s, or earlier if something changes
			}
			req.Object.Status.Address = address
			return err
		})
}

func ExampleAfter_steps() {
	kopf.For(&Database{}).
		OnReconcile("service", ensureService).
		OnReconcile("server", ensureServer, kopf.After("service")).
		OnReconcile("users", ensureUsers, kopf.After("server")).
		Owns(&corev1.Service{}).
		Owns(&appsv1.StatefulSet{})
}

var ensureService, ensureServer, ensureUsers = announce, announce, announce

func ExampleRetryOnRelatedChange() {
	kopf.For(&Database{}).
		OnCreate("announce", func(ctx context.Context, req *DatabaseRequest) error {
			server := &appsv1.StatefulSet{}
			if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), server); err != nil {
				return err
			}
			if server.Status.ReadyReplicas == 0 {
				return kopf.Temporary(errors.New("the server is not ready"), time.Hour)
			}
			return announce(ctx, req)
		}, kopf.RetryOnRelatedChange()).
		Owns(&appsv1.StatefulSet{})
}

func ExampleRequest_Track() {
	kopf.For(&Database{}).
		OnReconcile("configure", func(ctx context.Context, req *DatabaseRequest) error {
			config := &corev1.ConfigMap{}
			config.Namespace, config.Name = req.Object.Namespace, req.Object.Name+"-config"
			if err := req.Track(ctx, config); client.IgnoreNotFound(err) != nil {
				return err
			}
			return cloud.Configure(ctx, req.Object.Name, config.Data)
		})
}

func ExampleRequest_EventAbout() {
	kopf.For(&Database{}).
		OnDelete("release", func(ctx context.Context, req *DatabaseRequest) error {
			volume := &corev1.PersistentVolumeClaim{}
			key := client.ObjectKey{Namespace: req.Object.Namespace, Name: req.Object.Name}
			if err := req.Client.Get(ctx, key, volume); err != nil {
				return client.IgnoreNotFound(err)
			}
			req.EventAbout(volume, "Normal", "Unused", "Release", "the database %s is being deleted; the volume is kept", req.Object.Name)
			return nil
		})
}

func ExampleRenamedFrom() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.RenamedFrom("create")) // an earlier version of the operator had the id "create"
}

func ExampleResource_Watches() {
	kopf.For(&Database{}).
		OnReconcile("place", announce).
		Watches(&corev1.Node{}, func(ctx context.Context, node client.Object) (requests []reconcile.Request) {
			for _, key := range cloud.DatabasesOn(ctx, node.GetName()) {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
			return requests
		})
}

func ExampleResource_WatchesMetadata() {
	kopf.For(&Database{}).
		OnReconcile("count", announce).
		// Each Secret with the label belongs to the database of that name. The cache contains only the metadata of the Secrets.
		WatchesMetadata(&corev1.Secret{}, func(_ context.Context, secret client.Object) []reconcile.Request {
			name := secret.GetLabels()["example.com/database"]
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: secret.GetNamespace(), Name: name}}}
		})
}

func ExampleResource_TriggerFrom() {
	changed := make(chan event.GenericEvent) // another part of the program sends objects with a name and a namespace
	kopf.For(&Database{}).
		OnReconcile("sync", announce).
		TriggerFrom(source.Channel(changed, &handler.EnqueueRequestForObject{}))
}

func ExampleOperator_Enqueue() {
	operator := kopf.New(mgr, kopf.For(&Database{}).OnReconcile("sync", announce))
	token, err := os.ReadFile("/etc/databases/token")
	if err != nil || len(token) == 0 {
		panic("the token is missing") // without a token, every client could call the endpoint
	}
	// The cloud calls this endpoint when a database has changed there.
	http.HandleFunc("POST /databases/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), append([]byte("Bearer "), token...)) != 1 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		database := &Database{}
		database.Namespace, database.Name = r.PathValue("namespace"), r.PathValue("name")
		if err := operator.Enqueue(database); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

func ExampleWithLeanCaches() {
	databases := kopf.For(&Database{}).OnUpdate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases,
		kopf.WithLeanCaches(),
		kopf.WithKindCaches(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}}})) // as in the manager's options
}

func ExampleResource_Owns() {
	kopf.For(&Database{}).
		OnReconcile("service", announce).
		Owns(&appsv1.Deployment{}, predicate.GenerationChangedPredicate{}). // the predicate ignores status changes
		Owns(&corev1.Secret{})
}

type DatabaseReconciler struct{}

func (*DatabaseReconciler) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: time.Minute}, nil
}

func ExampleFromReconciler() {
	databases := kopf.For(&Database{}).
		OnReconcile("main", kopf.FromReconciler[*Database](&DatabaseReconciler{})). // your existing reconciler
		Owns(&corev1.Service{}).
		OnDelete("drop", drop) // a new handler

	_ = kopf.SetupWithManager(mgr, databases)
}

func ExampleRequest_Eventf() {
	kopf.For(&Database{}).
		OnUpdate("resize", func(_ context.Context, req *DatabaseRequest) error {
			before, after := req.Field()
			req.Eventf("Normal", "Resized", "Resize", "from %v to %v", before, after)
			return nil
		}, kopf.Field("spec.size"))
}

func (fakeCloud) Configure(context.Context, string, map[string]string) error { return nil }
func (fakeCloud) DatabasesOn(context.Context, string) []types.NamespacedName { return nil }
