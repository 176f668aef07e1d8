// Command 10-builtins is an operator for the built-in kinds Pod and Namespace.
package main

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Users select pods and namespaces by these labels, because most objects of a cluster need no handling.
const (
	watched  = "builtins.example.com/watched"
	isolated = "builtins.example.com/isolated"
)

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache: kopf.NewCache,
		Metrics:  server.Options{BindAddress: "0"},
		// The API server sends only objects with the labels.
		Cache: cache.Options{ByObject: kopf.ByObject(namespaceHandlers())},
	})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator()...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator() []kopf.Option {
	return []kopf.Option{
		// Kinds have the names of kubectl, such as the short name of pods.
		kopf.ForKinds(kopf.Kinds("po"), func(metav1.APIResource) kopf.Option { return podHandlers() }),
		kopf.WithKindCaches(cache.Options{ByObject: kopf.ByObject(podHandlers())}),
		namespaceHandlers(),
		kopf.Needs(&networkingv1.NetworkPolicy{}, "get", "create", "update"), // for isolate; Owns adds list and watch
	}
}

func podHandlers() *kopf.Resource[*corev1.Pod] {
	return kopf.For(&corev1.Pod{}).
		// Other components write this field of the status.
		OnField("phase", "status.phase", announce, kopf.Label(watched))
}

func namespaceHandlers() *kopf.Resource[*corev1.Namespace] {
	return kopf.For(&corev1.Namespace{}).
		// isolate restores the desired state, including when another client edits the policy.
		OnReconcile("isolate", isolate, kopf.Label(isolated, filter.Equal("true")), kopf.Interval(time.Hour)).
		Owns(&networkingv1.NetworkPolicy{})
}

// announce logs the phases of a pod, and posts an Event when it has failed.
func announce(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
	before, now := req.Field()
	log.FromContext(ctx).Info("The phase of the pod has changed", "before", before, "now", now)
	if now == string(corev1.PodFailed) {
		req.Eventf(corev1.EventTypeWarning, "PodFailed", "Watch", "The pod was %v, and has failed", before)
	}
	return nil
}

// isolate applies a network policy that blocks traffic from outside of the namespace.
func isolate(ctx context.Context, req *kopf.Request[*corev1.Namespace]) error {
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Name, Name: "isolated"}}
	done, err := controllerutil.CreateOrUpdate(ctx, req.Client, policy, func() error {
		policy.Spec = networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}
		return controllerutil.SetControllerReference(req.Object, policy, req.Client.Scheme()) // Owns requires the owner reference
	})
	if err != nil {
		return err // the engine retries the handler after a backoff
	}
	if done != controllerutil.OperationResultNone {
		log.FromContext(ctx).Info("The namespace is isolated", "policy", done)
	}
	return nil
}
