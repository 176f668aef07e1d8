package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Under every fault, the book is registered, and its deletion is completed.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Given:    kopftest.Given{CRDs: []string{"config/crd"}},
			Operator: func() []kopf.Option { return []kopf.Option{goods()} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newBook()) },
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newBook(), func(book *unstructured.Unstructured) { book.SetLabels(map[string]string{"new": "yes"}) })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newBook()) },
			},
		}
	}, kopftest.WithMaxPlans(2))
}

func newBook() *unstructured.Unstructured {
	book := kopf.Unstructured(schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Book"})
	book.SetNamespace("default")
	book.SetName("atlas")
	return book
}
