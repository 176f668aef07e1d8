package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/99-all-at-once/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// provision has a result, which the engine stores in status.results.provision.
func provision(ctx context.Context, req *Request) error {
	if req.Attempt.Number == 0 {
		return kopf.Temporary(errors.New("no capacity"), 0) // the engine retries the handler immediately
	}
	req.Object.Status.Address = req.Object.Name + ".db.example.com"
	req.SetResult(map[string]any{"attempts": req.Attempt.Number + 1})
	req.Eventf(corev1.EventTypeNormal, "Provisioned", "Provision", "There are %d nodes", req.Object.Spec.Nodes)
	log.FromContext(ctx).Info("Provisioned")
	return nil
}

// connections stores the connection of each cluster in this process.
var connections = kopf.NewMemo[string]("connections")

func connect(ctx context.Context, req *Request) error {
	connections.Store(ctx, "tcp://"+req.Object.Status.Address)
	req.Conditions().True("Connected", "Connected", "")
	log.FromContext(ctx).Info("Connected")
	return nil
}

// users declares one sub-handler for each user, and removes users from the status that are no longer in the spec.
func users(_ context.Context, req *Request) error {
	maps.DeleteFunc(req.Object.Status.Users, func(user string, _ bool) bool { return !slices.Contains(req.Object.Spec.Users, user) })
	for _, user := range req.Object.Spec.Users {
		req.Sub(user, func(ctx context.Context, req *Request) error {
			if user == "root" {
				return kopf.Permanent(errors.New("the user root is reserved"))
			}
			if req.Object.Status.Users == nil {
				req.Object.Status.Users = map[string]bool{}
			}
			req.Object.Status.Users[user] = true
			log.FromContext(ctx).Info("User access granted", "user", user)
			return nil
		}, kopf.Retries(3))
	}
	return nil
}

// upgrade reads the other clusters of the same version from the index.
func upgrade(versions *kopf.Index[string, string]) kopf.Handler[*v1.Cluster] {
	return func(ctx context.Context, req *Request) error {
		before, now := req.Field()
		alike := slices.Sorted(slices.Values(versions.Get(req.Object.Spec.Version)))
		log.FromContext(ctx).Info("Upgrading", "from", before, "to", now, "sameVersion", alike)
		return nil
	}
}

func byVersion(_ context.Context, req *Request) (map[string]string, error) {
	return map[string]string{req.Object.Spec.Version: req.Object.Name}, nil
}

func scale(ctx context.Context, req *Request) error {
	connection, connected := connections.Load(ctx)
	log.FromContext(ctx).Info("Scaling", "diff", req.Diff.String(), "connected", connected, "to", connection)
	return nil
}

func greet(context.Context, *Request) error { return errors.New("the chat is offline") }

func tier(cluster *v1.Cluster) string { return cluster.Labels["tier"] }

func move(ctx context.Context, _ *Request, before, now string) error {
	log.FromContext(ctx).Info("Moving", "from", before, "to", now)
	return nil
}

func backup(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Backing up")
	return nil
}

func purge(ctx context.Context, _ *Request) error {
	log.FromContext(ctx).Info("Purging the caches")
	return nil
}

// addressBook maintains a config map for users of the cluster.
func addressBook(ctx context.Context, req *Request) error {
	book := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: req.Object.Name + "-address"}}
	done, err := controllerutil.CreateOrUpdate(ctx, req.Client, book, func() error {
		book.Data = map[string]string{"address": req.Object.Status.Address}
		return controllerutil.SetControllerReference(req.Object, book, req.Client.Scheme())
	})
	if done != controllerutil.OperationResultNone {
		log.FromContext(ctx).Info("Address book written", "operation", done)
	}
	return err
}

// An auditor is an ordinary reconciler, used without a change.
type auditor struct{}

func (auditor) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	log.FromContext(ctx).Info("Audited", "cluster", req.String())
	return reconcile.Result{}, nil
}

func observe(ctx context.Context, req *Request) error {
	log.FromContext(ctx).Info("Observed", "event", req.Event)
	return nil
}

func notice(ctx context.Context, req *kopf.Request[*Metadata]) error {
	log.FromContext(ctx).Info("Secret changed", "event", req.Event)
	return nil
}
