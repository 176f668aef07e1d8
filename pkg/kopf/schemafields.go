package kopf

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/served"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// fieldCheck returns the function that reports the handler fields that the published schema of the kind lacks, and the compared values that a field cannot have. It
// returns nil if there are no such fields.
func fieldCheck(r resource) func(*apiextensionsv1.JSONSchemaProps, func(handler, field string, problem error)) {
	declarations := r.handlersWithUncheckedFields()
	if len(declarations) == 0 {
		return nil
	}
	return func(published *apiextensionsv1.JSONSchemaProps, report func(handler, field string, problem error)) {
		for _, d := range declarations {
			for _, err := range d.checkField(served.Field{Props: published}, "the schema of the kind") {
				report(d.displayName(), validation.JoinFieldPath(d.Criteria.Field.Path), err)
			}
		}
	}
}
