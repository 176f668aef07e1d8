package filter_test

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

func handle(context.Context, *kopf.Request[*appsv1.Deployment]) error { return nil }

// CheckDeclaration reports matchers that can never match.
func Example() {
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{})
	if err != nil {
		panic(err)
	}
	fine := kopf.For(&appsv1.Deployment{}).
		OnCreate("install", handle, kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver")))).
		OnUpdate("stop", handle, kopf.Field("spec.replicas", filter.From(filter.Present), filter.To(0)))
	impossible := kopf.For(&appsv1.Deployment{}).
		OnCreate("install", handle, kopf.Label("tier", filter.Equal("gold"), filter.Absent))

	fmt.Println(kopf.New(mgr, fine).CheckDeclaration())
	fmt.Println(kopf.New(mgr, impossible).CheckDeclaration())
	// Output:
	// <nil>
	// the operator cannot start:
	// Deployment: OnCreate("install"): Label("tier") can never match: Equal(gold) and Absent are mutually exclusive
}

func ExampleEqual() {
	kopf.For(&appsv1.Deployment{}).
		OnCreate("install", handle, kopf.Field("spec.replicas", filter.Equal(3)))
}

func ExampleMatch() {
	many := filter.Match(func(value any) bool {
		replicas, _ := value.(int64) // JSON numbers are int64 or float64; nil means that the field is absent
		return replicas > 100
	})
	kopf.For(&appsv1.Deployment{}).OnCreate("warn", handle, kopf.Field("spec.replicas", many))
}

func ExampleAny() {
	kopf.For(&appsv1.Deployment{}).
		OnCreate("install", handle, kopf.Label("tier", filter.Any(filter.Equal("gold"), filter.Equal("silver"))))
}

// An option combines its matchers with All, so All is needed only within another matcher.
func ExampleAll() {
	internal := filter.Match(func(value any) bool {
		text, _ := value.(string)
		return strings.HasSuffix(text, ".internal")
	})
	kopf.For(&appsv1.Deployment{}).
		OnCreate("expose", handle, kopf.Annotation("example.com/host", filter.Not(filter.All(filter.Present, internal))))
}

func ExampleNone() {
	kopf.For(&appsv1.Deployment{}).
		OnCreate("install", handle, kopf.Label("tier", filter.None(filter.Equal("gold"), filter.Equal("silver"))))
}

// Not also passes for objects without the label.
func ExampleNot() {
	kopf.For(&appsv1.Deployment{}).
		OnCreate("install", handle, kopf.Label("tier", filter.Not(filter.Equal("gold"))))
}

func ExampleFrom() {
	kopf.For(&appsv1.Deployment{}).
		OnUpdate("started", handle, kopf.Field("spec.paused", filter.From(true), filter.To(filter.Absent))).
		OnUpdate("resized", handle, kopf.Field("spec.replicas", filter.From(filter.Not(filter.Equal(0)))))
}

// The handler is called when the annotation is added, but not when its value changes.
func ExampleTo() {
	kopf.For(&appsv1.Deployment{}).
		OnUpdate("announce", handle, kopf.Field(`metadata.annotations.example\.com/host`, filter.From(filter.Absent), filter.To(filter.Present)))
}
