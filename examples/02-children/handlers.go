package main

import (
	"context"
	"crypto/rand"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

type handlers struct {
	direct client.Reader // client without a cache, because a cache would store all secrets of the cluster
}

// password creates the secret if it is missing. It never changes an existing secret, so a second call is safe.
func (h *handlers) password(ctx context.Context, req *Request) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "password")},
		StringData: map[string]string{"password": rand.Text()},
	}
	results, err := children.Of(req.Object, req.Client, children.ReadWith(h.direct)).Create(ctx, secret)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("Password secret applied", "secret", secret.Name, "operation", results[0].Operation)
	return nil
}

// greeting adopts a child and creates it with the client. The child has a fixed name, so that a second call creates no second child.
func greeting(ctx context.Context, req *Request) error {
	child := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "greeting")},
		Data:       map[string]string{"greeting": "Hello, " + req.Object.GetName()},
	}
	if err := req.Adopt(child); err != nil {
		return err
	}
	if err := req.Client.Create(ctx, child); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	log.FromContext(ctx).Info("Greeting created", "controlled", metav1.IsControlledBy(child, req.Object))
	return nil
}

// abroad always fails: owners and children must be in the same namespace, or the garbage collector deletes the child.
func abroad(_ context.Context, req *Request) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "abroad"}}
	return kopf.Permanent(req.Adopt(child))
}

// server applies the desired children in each call. Package children writes only differences.
func server(ctx context.Context, req *Request) error {
	labels := map[string]string{"database": req.Object.GetName()}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "server")},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, // package children adds the labels of the database
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: imageOf(req.Object)}}},
			},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "primary")},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 5432, TargetPort: intstr.FromInt32(5432)}}},
	}
	results, err := children.Of(req.Object, req.Client, children.FieldOwner("database-operator")).Apply(ctx, deployment, service)
	for _, result := range results {
		if result.Operation != controllerutil.OperationResultNone {
			log.FromContext(ctx).Info("Child applied", "child", result.Object.GetName(), "operation", result.Operation)
		}
	}
	return err
}

func imageOf(database *unstructured.Unstructured) string {
	engine, _, _ := unstructured.NestedString(database.Object, "spec", "engine")
	return engine + ":17"
}
