package kopf_test

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleLabel() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", kopf.Equal("gold"))).
		OnDelete("drop", drop, kopf.Label("tier", kopf.Equal("gold")))
}

func ExampleAnnotation() {
	kopf.For(&Database{}).
		OnUpdate("announce", announce, kopf.Annotation("example.com/silent", kopf.Absent))
}

func ExampleOwnedBy() {
	kopf.For(&corev1.Pod{}).
		OnCreate("count", count, kopf.OwnedBy(&appsv1.ReplicaSet{}), kopf.OwnedBy(&appsv1.StatefulSet{})) // one of them
}

func ExampleEqual() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Field("spec.size", kopf.Equal(10)))
}

func ExampleMatch() {
	huge := kopf.Match(func(value any) bool {
		size, _ := value.(int64) // numbers of JSON are int64 or float64; nil: there is none
		return size > 1000
	})
	kopf.For(&Database{}).OnCreate("provision", provision, kopf.Field("spec.size", huge))
}

func ExampleAny() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", kopf.Any(kopf.Equal("gold"), kopf.Equal("silver"))))
}

func ExampleAll() {
	internal := kopf.Match(func(value any) bool { text, _ := value.(string); return strings.HasPrefix(text, "10.") })

	kopf.For(&Database{}).
		// Several matchers are All of them anyway: this is for the inside of others.
		OnField("exposed", "status.address", announce, kopf.Field("status.address", kopf.Not(kopf.All(kopf.Present, internal))))
}

func ExampleNone() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", kopf.None(kopf.Equal("gold"), kopf.Equal("silver"))))
}

func ExampleNot() {
	kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", kopf.Not(kopf.Equal("gold")))) // also without the label
}

func ExampleResource_When() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision)

	big := databases.When(func(req *DatabaseRequest) bool { return req.Object.Spec.Size > 1000 })
	big.OnCreate("warn", announce)
	big.OnUpdate("warn-again", announce)

	_ = mgr.Add(kopf.New(mgr, databases)) // with the handlers of the view
}

func ExampleByObject() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision, kopf.Label("tier", kopf.Equal("gold"))).
		OnUpdate("announce", announce, kopf.Label("tier", kopf.Equal("gold")))

	// The API server sends gold databases only.
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache: cache.Options{ByObject: kopf.ByObject(databases)},
	})
	if err != nil {
		panic(err)
	}
	_ = kopf.SetupWithManager(mgr, databases)
}
