package main

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/17-admission/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// Review is the request that the admission handlers receive.
type Review = webhooks.Request[*v1.Bucket]

// defaults sets missing values. The API server may call it again for values that it has set.
func defaults(ctx context.Context, req *Review) error {
	spec := &req.Object.Spec
	if spec.SizeGiB == 0 {
		spec.SizeGiB = 10
	}
	if spec.Region == "" {
		spec.Region = "amsterdam"
	}
	log.FromContext(ctx).Info("Set the defaults", "sizeGiB", spec.SizeGiB, "region", spec.Region)
	return nil
}

// rules returns all errors, each with its field.
func rules(_ context.Context, req *Review) error {
	if req.Object.DeletionTimestamp != nil {
		return nil // do not deny an update that removes a finalizer, because the deletion requires it
	}
	spec, path := req.Object.Spec, field.NewPath("spec")
	var all field.ErrorList
	if spec.SizeGiB < 1 || spec.SizeGiB > 1000 {
		all = append(all, field.Invalid(path.Child("sizeGiB"), spec.SizeGiB, "must be between 1 and 1000"))
	}
	if regions := []string{"amsterdam", "mumbai"}; spec.Region != regions[0] && spec.Region != regions[1] {
		all = append(all, field.NotSupported(path.Child("region"), spec.Region, regions))
	}
	if req.Old != nil && req.Old.Spec.Region != spec.Region {
		all = append(all, field.Forbidden(path.Child("region"), "a bucket cannot move"))
	}
	if spec.Public {
		req.Warn("anyone can read the bucket") // kubectl prints the warning, even if the request is denied
	}
	return all.ToAggregate() // ToAggregate returns nil for an empty list
}

// protect denies deletions. The API server calls it only for buckets with the label.
func protect(context.Context, *Review) error {
	return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "the bucket is protected; remove the label first")
}

// audit only logs. A real handler would record the request outside of the cluster. Another handler may still deny the request.
func audit(ctx context.Context, req *Review) error {
	logger := log.FromContext(ctx).WithValues("user", req.User.Username)
	if req.DryRun {
		logger.Info("Dry run; nothing is recorded")
		return nil
	}
	logger.Info("Recorded")
	return nil
}

// provision handles the stored object, which has all defaults and follows the rules.
func provision(ctx context.Context, req *kopf.Request[*v1.Bucket]) error {
	log.FromContext(ctx).Info("Provisioning the bucket", "sizeGiB", req.Object.Spec.SizeGiB, "region", req.Object.Spec.Region)
	req.Object.Status.URL = "https://" + req.Object.Name + "." + req.Object.Spec.Region + ".example.com"
	return nil
}
