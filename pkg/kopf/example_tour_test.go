package kopf_test

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// This file contains the code of the README. A test compares both.

type metadata = metav1.PartialObjectMetadata

type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Size int `json:"size"`
	} `json:"spec"`
	Status struct {
		Phase   string `json:"phase,omitempty"`
		Address string `json:"address,omitempty"`
	} `json:"status"`
}

func (d *Database) DeepCopyObject() runtime.Object { out := *d; return &out }

type DatabaseRequest = kopf.Request[*Database]

func provision(ctx context.Context, req *DatabaseRequest) error {
	if req.Object.Spec.Size <= 0 {
		return kopf.Permanent(errors.New("spec.size must be positive")) // no other attempt until the object changes
	}
	address, err := cloud.Ensure(ctx, req.Object.Name, req.Object.Spec.Size)
	if errors.Is(err, errBusy) {
		return kopf.Temporary(err, 10*time.Second) // the next attempt is in ten seconds
	}
	if err != nil {
		return err // the next attempt is after the backoff
	}
	req.Object.Status.Address = address // the engine writes this change
	return nil
}

func announce(ctx context.Context, req *DatabaseRequest) error {
	if req.Diff.Reduce("spec", "size").Empty() {
		return nil // only other fields have changed, such as a label
	}
	log.FromContext(ctx).Info("Resized", "from", req.Old.Spec.Size, "to", req.Object.Spec.Size)
	return nil
}

func drop(ctx context.Context, req *DatabaseRequest) error {
	return cloud.Drop(ctx, req.Object.Name) // the object exists until the handler has succeeded or failed permanently
}

func setup(mgr ctrl.Manager) error {
	databases := kopf.For(&Database{}).
		OnCreateOrUpdate("provision", provision, kopf.Backoff(30*time.Second)).
		OnUpdate("announce", announce, kopf.Retries(5)).
		OnDelete("drop", drop)

	return kopf.SetupWithManager(mgr, databases)
}

func Example() {
	_ = setup(mgr)
}

var (
	cloud   fakeCloud
	errBusy = errors.New("busy")
)

type fakeCloud struct{}

func (fakeCloud) Ensure(context.Context, string, int) (string, error) { return "10.0.0.1", nil }
func (fakeCloud) Drop(context.Context, string) error                  { return nil }
