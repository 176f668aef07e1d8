package kopf_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

func ExampleLabel() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", filter.Equal("gold"))).
		OnDelete("drop", drop, kopf.Label("tier", filter.Equal("gold")))
}

func ExampleAnnotation() {
	kopf.For(&Database{}).
		OnUpdate("announce", announce, kopf.Annotation("example.com/silent", filter.Absent))
}

func ExampleOwnedBy() {
	kopf.For(&corev1.Pod{}).
		OnCreate("count", count, kopf.OwnedBy(&appsv1.ReplicaSet{}), kopf.OwnedBy(&appsv1.StatefulSet{})) // one of these owners is sufficient
}

func ExampleResource_When() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision)

	big := databases.When(func(req *DatabaseRequest) bool { return req.Object.Spec.Size > 1000 })
	big.OnCreate("warn", announce)
	big.OnUpdate("warn-again", announce)

	_ = mgr.Add(kopf.New(mgr, databases)) // includes the handlers of the view
}

// The cache drops the managed fields of databases to save memory.
func ExampleSetupWithManager_managedFields() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache: kopf.NewCache,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&Database{}: {Transform: cache.TransformStripManagedFields()},
		}},
	})
	if err != nil {
		panic(err)
	}
	_ = kopf.SetupWithManager(mgr, kopf.For(&Database{}).OnCreate("provision", provision))
}

func ExampleByObject() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", filter.Equal("gold"))).
		OnUpdate("announce", announce, kopf.Label("tier", filter.Equal("gold")))

	// The API server sends only gold databases.
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache: cache.Options{ByObject: kopf.ByObject(databases)},
	})
	if err != nil {
		panic(err)
	}
	_ = kopf.SetupWithManager(mgr, databases)
}
