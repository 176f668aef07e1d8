package kopf_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleRequest_Sub() {
	kopf.For(&Database{}).
		OnCreate("provision", func(_ context.Context, req *DatabaseRequest) error {
			for replica := range req.Object.Spec.Size {
				req.Sub(fmt.Sprintf("replica-%d", replica), func(ctx context.Context, req *DatabaseRequest) error {
					_, err := cloud.Ensure(ctx, fmt.Sprintf("%s-%d", req.Object.Name, replica), 1)
					return err
				}, kopf.Retries(5))
			}
			return nil // the sub-handlers are called next; "provision" finishes when all of them have finished
		})
}

func ExampleRequest_AwaitSubs() {
	kopf.For(&Database{}).
		OnCreate("provision", func(ctx context.Context, req *DatabaseRequest) error {
			req.Sub("storage", provision)
			req.Sub("network", provision, kopf.Retries(5))
			if !req.AwaitSubs() {
				return nil // the handler is called again when both have finished
			}
			return announce(ctx, req)
		})
}

func ExampleForEachRelated() {
	// When the key of a Secret has changed, apply the new key to each Database that uses the Secret.
	kopf.For(&corev1.Secret{}).
		OnUpdate("rotate", kopf.ForEachRelated(&Database{}, databasesOf, func(ctx context.Context, req *kopf.Request[*corev1.Secret], database *Database) error {
			return cloud.Configure(ctx, database.Name, map[string]string{"key": string(req.Object.Data["key"])})
		}, kopf.Retries(5)), kopf.Field("data.key"))
}

func ExampleForEachOwner() {
	// A Pod belongs to one or more Databases.
	kopf.For(&corev1.Pod{}).
		OnUpdate("register", kopf.ForEachOwner(&Database{}, func(ctx context.Context, req *kopf.Request[*corev1.Pod], database *Database) error {
			return cloud.Configure(ctx, database.Name, map[string]string{"address": req.Object.Status.PodIP})
		}, kopf.Retries(5)), kopf.Field("status.podIP"))
}

// databasesOf returns the Databases that use a Secret.
func databasesOf(_ context.Context, secret client.Object) (requests []reconcile.Request) {
	for name := range strings.SplitSeq(secret.GetAnnotations()["example.com/databases"], ",") {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: secret.GetNamespace(), Name: name}})
	}
	return requests
}
