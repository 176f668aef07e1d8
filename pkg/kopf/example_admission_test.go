package kopf_test

import (
	"context"
	"fmt"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

type DatabaseReview = webhooks.Request[*Database]

func checkSize(_ context.Context, req *DatabaseReview) error {
	switch size := req.Object.Spec.Size; {
	case req.Object.DeletionTimestamp != nil:
		return nil // accept updates that remove finalizers
	case req.Old != nil && size < req.Old.Spec.Size:
		return field.Forbidden(field.NewPath("spec", "size"), "a database cannot shrink")
	case size > 1000:
		req.Warn("a database of this size takes an hour to start")
	}
	return nil
}

func defaultSize(_ context.Context, req *DatabaseReview) error {
	if req.Object.Spec.Size == 0 {
		req.Object.Spec.Size = 10
	}
	return nil
}

func ExampleIndex_HasSynced() {
	databases := kopf.For(&Database{})
	byName := kopf.IndexBy(databases, "by-name", func(_ context.Context, req *DatabaseRequest) (map[string]string, error) {
		return map[string]string{req.Object.Name: req.Object.Namespace}, nil
	})
	databases.Validate("unique", func(_ context.Context, req *DatabaseReview) error {
		if !byName.HasSynced() {
			return webhooks.Deny(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the databases are not known yet: try again in a few seconds")
		}
		for _, namespace := range byName.Get(req.Object.Name) {
			if namespace != req.Object.Namespace {
				return field.Duplicate(field.NewPath("metadata", "name"), req.Object.Name)
			}
		}
		return nil
	}, webhooks.Operations(admissionregistrationv1.Create))

	_ = mgr.Add(kopf.New(mgr, databases))
}

func ExampleResource_Validate() {
	setup := func(mgr ctrl.Manager) error {
		databases := kopf.For(&Database{}).
			Mutate("default-size", defaultSize).
			Validate("size", checkSize,
				webhooks.Operations(admissionregistrationv1.Create, admissionregistrationv1.Update)).
			OnCreate("provision", provision)

		return kopf.SetupWithManager(mgr, databases, kopf.WithWebhooks(webhooks.Options{
			Name:           "databases.example.com",
			Configurations: webhooks.Managed,
			Certificates:   webhooks.SelfManaged{},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Name: "databases"},
			},
		}))
	}
	_ = setup
}

// Tests call handlers as functions. Changes to the object become the patch of the response.
func ExampleResource_Mutate() {
	req := &DatabaseReview{Object: &Database{}, Call: &webhooks.Call{}}
	fmt.Println(defaultSize(context.Background(), req), req.Object.Spec.Size)
	// Output: <nil> 10
}

// An operator on a laptop writes its own webhook configurations and removes them when it stops.
func ExampleWithWebhooks() {
	databases := kopf.For(&Database{}).Validate("size", checkSize)

	_ = kopf.SetupWithManager(mgr, databases, kopf.WithWebhooks(webhooks.Options{
		Name:           "databases-of-jane.example.com",
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Certificates:   webhooks.SelfManaged{},
		Namespace:      "jane", // the namespace of the Secret
		ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: new("https://host.k3d.internal:9443")},
	}))
}
