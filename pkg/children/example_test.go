package children_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// A reconciler applies its children in every reconcile.
func ExampleOwner_Apply() {
	reconcile := func(ctx context.Context, c client.Client, db client.Object) error {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "primary")},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
		}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "server")},
		}
		results, err := children.Of(db, c, children.FieldOwner("database-operator")).Apply(ctx, service, deployment)
		if err != nil {
			return err
		}
		return conditions.Write(ctx, c, db, func(s *conditions.Set) {
			s.MirrorFrom(results[1].Object, "Available")
		})
	}
	_ = reconcile
}

// A Set also deletes the children that are no longer in the list.
func ExampleSet_Apply() {
	reconcile := func(ctx context.Context, c client.Client, db client.Object, replicas []string) error {
		var wanted []client.Object
		for _, replica := range replicas {
			wanted = append(wanted, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, replica)}})
		}
		set := children.Of(db, c, children.FieldOwner("database-operator")).Set("replicas", &corev1.ConfigMap{})
		result, err := set.Apply(ctx, wanted...)
		return errors.Join(err, conditions.Write(ctx, c, db, func(s *conditions.Set) {
			s.Set(result.Condition("ReplicasReady"))
		}))
	}
	_ = reconcile
}

// The Service is created when the Deployment is ready.
func ExampleSet_ApplyInOrder() {
	reconcile := func(ctx context.Context, c client.Client, db client.Object) error {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "server")}}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "primary")}}
		set := children.Of(db, c, children.FieldOwner("database-operator")).Set("serving", &appsv1.Deployment{}, &corev1.Service{})
		_, err := set.ApplyInOrder(ctx, deployment, service)
		return err
	}
	_ = reconcile
}

// Create does not change a child after its creation.
func ExampleOwner_Create() {
	reconcile := func(ctx context.Context, c client.Client, db client.Object) error {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: children.Name(db, "password")},
			StringData: map[string]string{"password": "random"},
		}
		_, err := children.Of(db, c).Create(ctx, secret)
		return err
	}
	_ = reconcile
}

// Adopt sends no request. The caller writes the objects.
func ExampleOwner_Adopt() {
	db := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "db", Namespace: "prod", UID: "u1", Labels: map[string]string{"app": "db"},
	}}
	deployment := &appsv1.Deployment{}
	if err := children.Of(db, kinds{}).Adopt(deployment); err != nil {
		fmt.Println(err)
	}
	fmt.Println(deployment.Namespace, deployment.GenerateName, deployment.OwnerReferences[0].Name)
	fmt.Println(deployment.Labels, deployment.Spec.Template.Labels)
	// Output:
	// prod db- db
	// map[app:db] map[app:db]
}

func ExampleOf() {
	db := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "prod", UID: "u1"}}
	owner := children.Of(db, kinds{},
		children.Controller(false),
		children.Strict(),
		children.Labels(map[string]string{"app": "database"}),
		children.PlainTemplates(),
	)
	deployment := &appsv1.Deployment{}
	if err := owner.Adopt(deployment); err != nil {
		fmt.Println(err)
	}
	fmt.Println(deployment.Name, deployment.Labels, deployment.Spec.Template.Labels)
	// Output: db map[app:database] map[]
}

func ExampleName() {
	db := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	fmt.Println(children.Name(db, "primary"))
	fmt.Println(children.Name(db, "read_only"))
	// Output:
	// db-primary
	// db-read-only-d054d56e
}
