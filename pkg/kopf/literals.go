package kopf

import (
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// explainMismatch explains why a field can never have the operand's value, and suggests a different one. It returns an empty string if the
// field can have it.
func explainMismatch(l match.Operand, field validation.FieldType) string {
	want := field.JSON()
	if want == validation.JSONAny || want.Accepts(l.Value) {
		if !l.OrAbsent && l.Side != match.Before && field.IsOmitted(l.Value) {
			instead := "Absent"
			if l.Negated {
				instead = "Present"
			}
			return fmt.Sprintf("the JSON form of the Go type omits a field with this value: use %s instead", instead)
		}
		return ""
	}
	return fmt.Sprintf("the field is %s: use %s", want, want.Suggest(l.Value))
}
