package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/99-all-at-once/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// Review is the request that the admission handlers receive.
type Review = webhooks.Request[*v1.Cluster]

// defaults sets the tier.
func defaults(_ context.Context, req *Review) error {
	if tier(req.Object) == "" {
		if req.Object.Labels == nil {
			req.Object.Labels = map[string]string{}
		}
		req.Object.Labels["tier"] = "silver"
	}
	return nil
}

// rules denies versions that are older than the current version.
func rules(_ context.Context, req *Review) error {
	if req.Object.DeletionTimestamp != nil || req.Old == nil {
		return nil
	}
	before, wasNumber := number(req.Old.Spec.Version)
	now, isNumber := number(req.Object.Spec.Version)
	if wasNumber && (!isNumber || now < before) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "version"), req.Object.Spec.Version,
			fmt.Sprintf("must be a number and at least %d, because downgrades are not supported", before))}.ToAggregate()
	}
	return nil
}

func number(version string) (n int, ok bool) {
	n, err := strconv.Atoi(version)
	return n, err == nil
}

// development is the configuration for an operator outside of the cluster: it manages certificates and webhook
// configurations, and removes the configurations when it ends.
func development(at addresses) webhooks.Options {
	return webhooks.Options{
		Name:           "all.example.com",
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Certificates:   webhooks.SelfManaged{SecretName: "all-at-once-certificates"},
		Namespace:      "default",
		Namespaces:     []string{"default"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new("https://" + net.JoinHostPort(at.host, strconv.Itoa(at.port))),
		},
	}
}
