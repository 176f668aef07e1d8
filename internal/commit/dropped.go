package commit

import (
	"context"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// ReportDropped logs and counts the fields of a handler that the API server did not store as the handler has set them, usually because of the schema of the
// kind: fields that it lacks, nulls that it does not allow, and defaults of fields that the handler has removed. It logs each field of a handler once, and at most maxDropped fields for the kind.
func (c *Committer) ReportDropped(ctx context.Context, change *patch.Change, handler string, doc patch.MergePatch) {
	if handler == "" || len(doc) == 0 {
		return
	}
	isNew := func(field string) bool {
		metrics.DroppedFields.WithLabelValues(c.Name).Inc()
		return c.loggedDrops.isNew(handler, field)
	}
	for _, field := range change.RestoredFields(doc) {
		if isNew(field) {
			log.FromContext(ctx).Info("The API server has set a field that the handler has removed or set to null: the field has a default",
				"handler", handler, "field", field, "remedy", "set the value that you want; to store null, set nullable: true for the field in the schema, "+
					"and do not use omitempty in a Go type")
		}
	}
	for _, field := range change.DroppedNulls(doc) {
		if isNew(field) {
			log.FromContext(ctx).Info("The API server has dropped a null that the handler has set: the schema lacks the field, or does not allow null there",
				"handler", handler, "field", field, "resource", c.resourceName(), "remedy", "remove the field instead, or set nullable: true for it in the schema, "+
					"or x-kubernetes-preserve-unknown-fields: true for the object around it")
		}
	}
	for _, field := range change.DroppedFields(doc) {
		if !isNew(field) {
			continue
		}
		logger := log.FromContext(ctx).WithValues("handler", handler, "field", field)
		if !strings.Contains(c.Writer.GVK.Group, ".") { // the group of a CustomResourceDefinition has a dot
			logger.Info("The API server has dropped a field that the handler has set: the built-in kind does not have this field",
				"remedy", "keep the value in an annotation, or set the field of another kind")
			continue
		}
		logger.Info("The API server has dropped a field that the handler has set: the schema of the kind lacks it",
			"resource", c.resourceName(), "remedy", "if a CustomResourceDefinition defines the kind, add the field to its schema, "+
				"or x-kubernetes-preserve-unknown-fields: true to the object around it; if the kind is built in, keep the value in an annotation")
	}
}

// resourceName returns the resource of the kind: <plural>.<group>. A CustomResourceDefinition has the same name.
func (c *Committer) resourceName() string {
	mapping, err := c.Writer.Client.RESTMapper().RESTMapping(c.Writer.GVK.GroupKind(), c.Writer.GVK.Version)
	if err != nil {
		return strings.ToLower(c.Writer.GVK.Kind) + "." + c.Writer.GVK.Group // an estimate
	}
	return mapping.Resource.GroupResource().String()
}
