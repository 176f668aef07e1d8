package guide

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// What docs/coming-from-kopf.md shows.

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
		t.Error("it is tried again")
	}
}

// The declarations of the page have no mistakes.
func TestDeclarationsOfTheMigration(t *testing.T) {
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := kopf.New(mgr, simple()).Validate(); err != nil {
		t.Error(err)
	}
	if err := kopf.New(mgr, migrated(ensureDatabase, ensureDatabase, ensureDatabase)).Validate(); err != nil {
		t.Error(err)
	}
}

func simple() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}
	databases := kopf.For(kopf.Unstructured(database)).
		OnCreate("provision", ensureDatabase, kopf.Backoff(30*time.Second), kopf.Label("tier", kopf.Equal("gold")))
	return databases
}

func migrated(provisionDatabase, resizeDatabase, dropDatabase kopf.Handler[*unstructured.Unstructured]) *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}
	// As the operator in Python has them: the ids are the names of its functions.
	reasons := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}
	databases := kopf.For(kopf.Unstructured(database)).
		On("provision", reasons, provisionDatabase).
		OnField("resize", "spec.size", resizeDatabase). // field="spec.size": the id is resize/spec.size
		OnDelete("Cloud.drop", dropDatabase)            // a method
	return databases
}
