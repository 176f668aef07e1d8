package kopf

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// fieldCheck returns a function that reports handler fields that are missing in the kind's published schema, and compared values that a
// field can't have. It returns nil if there is nothing to check.
func fieldCheck(r resource) func(*apiextensionsv1.JSONSchemaProps, func(handler, field string, problem error)) {
	declarations := r.handlersWithUncheckedFields()
	if len(declarations) == 0 {
		return nil
	}
	return func(published *apiextensionsv1.JSONSchemaProps, report func(handler, field string, problem error)) {
		for _, d := range declarations {
			for _, err := range d.checkField(kinds.SchemaField{Props: published}, "the schema of the kind") {
				report(d.displayName(), validation.JoinFieldPath(d.Criteria.Field.Path), err)
			}
		}
	}
}

// checkField returns an error if the handler's field doesn't exist, or one for each compared value that the field can't have. source
// describes the Go type or the schema in error messages.
func (d *declaration) checkField(root validation.FieldType, source string) (errs []error) {
	field, unknown, suggestion := validation.LookUpField(root, d.Criteria.Field.Path)
	if unknown != "" {
		hint := ""
		if strings.HasPrefix(unknown, "/") {
			hint = "; separate the names with dots, such as spec.size"
		}
		if suggestion != "" {
			hint = fmt.Sprintf("; did you mean %s?", suggestion)
		}
		return []error{fmt.Errorf("%s has no field %s: correct the path%s", source, unknown, hint)}
	}
	for _, l := range d.literals {
		if explanation := explainMismatch(l, field); explanation != "" {
			effect := "can never match"
			if l.Negated {
				effect = "excludes nothing"
			}
			errs = append(errs, fmt.Errorf("%s %s: %s", l, effect, explanation))
		}
	}
	return errs
}
