package guide

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// This file contains the code of docs/coming-from-kopf.md.

func ensureDatabase(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
	if req.Attempt.Number > 5 {
		return kopf.Permanent(errors.New("the cloud does not answer"))
	}
	size, _, err := unstructured.NestedInt64(req.Object.Object, "spec", "size")
	if err != nil {
		return kopf.Permanent(err)
	}
	return unstructured.SetNestedField(req.Object.Object, fmt.Sprintf("10.0.0.%d", size), "status", "address")
}

func TestEnsureDatabase(t *testing.T) {
	req := &kopf.Request[*unstructured.Unstructured]{Object: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(7)}}}}
	if err := ensureDatabase(t.Context(), req); err != nil {
		t.Error(err)
	}
	if address, _, _ := unstructured.NestedString(req.Object.Object, "status", "address"); address != "10.0.0.7" {
		t.Error(address)
	}
	req.Attempt.Number = 6
	if _, forGood := errors.AsType[*progress.PermanentError](ensureDatabase(t.Context(), req)); !forGood {
		t.Error("the error is not permanent")
	}
}

// The declarations of the page are valid.
func TestDeclarationsOfTheMigration(t *testing.T) {
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := kopf.New(mgr, simple()).CheckDeclaration(); err != nil {
		t.Error(err)
	}
	if err := kopf.New(mgr, migrated(ensureDatabase, ensureDatabase, ensureDatabase)).CheckDeclaration(); err != nil {
		t.Error(err)
	}
}

// MIG-01: an operator in memory continues the unfinished cycle of the page's object.
func TestTakingOver_InMemory(t *testing.T) {
	g := NewWithT(t)
	photos := &unstructured.Unstructured{}
	for _, s := range steps(t, "../../docs/coming-from-kopf.md") {
		if s.Language == "yaml" {
			g.Expect(photos.Object).To(BeNil(), "the page must show exactly one object")
			g.Expect(yaml.Unmarshal([]byte(s.Text), &photos.Object)).To(Succeed())
		}
	}
	report := kopftest.Cycle(t, kopftest.Given{
		Now:      time.Date(2026, 5, 1, 12, 9, 0, 0, time.UTC),
		Duration: 2 * time.Minute, // until the delay is over
		Objects:  []client.Object{photos},
		CRDs:     []string{"testdata/databases.yaml"},
	}, migrated(ensureDatabase, ensureDatabase, ensureDatabase))

	g.Expect(report.Handlers()).To(Equal([]string{"provision", "resize/spec.size"}), "successful handlers are not called again, unless they also resume")
	g.Expect(report.Calls[1].Attempt).To(Equal(3), "the attempts continue")
	g.Expect(report.Calls[1].Began).To(BeTemporally("~", time.Date(2026, 5, 1, 12, 10, 0, 0, time.UTC), time.Second), "not before its time")
	g.Expect(report.Get(t, photos)).To(BeTrue())
	g.Expect(photos).To(And(kopftest.HaveHandled(), kopftest.HaveFinalizer()))
}

func simple() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}
	databases := kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", ensureDatabase, kopf.Backoff(30*time.Second), kopf.Label("tier", filter.Equal("gold")))
	return databases
}

func migrated(provisionDatabase, resizeDatabase, dropDatabase kopf.Handler[*unstructured.Unstructured]) *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}
	// Ids as in Python: the names of the functions.
	reasons := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}
	databases := kopf.For(kopf.Unstructured(database)).
		On("provision", reasons, provisionDatabase).
		OnField("resize", "spec.size", resizeDatabase). // field="spec.size": the id is resize/spec.size
		OnDelete("Cloud.drop", dropDatabase)            // a method
	return databases
}
