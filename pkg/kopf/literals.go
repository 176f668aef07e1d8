package kopf

import (
	"fmt"
	"math"
	"strconv"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// explainMismatch explains why a field can never have the value of the operand, and names a value to use instead. It returns an empty string
// if the field can have the value.
func explainMismatch(l match.Operand, field fieldType) string {
	want := field.json()
	if want == anyType || want.accepts(l.Value) {
		if !l.OrAbsent && l.Side != match.Before && field.isOmitted(l.Value) {
			instead := "Absent"
			if l.Negated {
				instead = "Present"
			}
			return fmt.Sprintf("the JSON form of the Go type omits a field with this value: use %s instead", instead)
		}
		return ""
	}
	return fmt.Sprintf("the field is %s: use %s", want, want.suggest(l.Value))
}

// accepts reports whether a field of the JSON type can have the value. It returns true for nil, and for values of Go types that decoded JSON
// does not contain.
func (t jsonType) accepts(value any) bool {
	switch value := value.(type) {
	case string:
		return t == stringType
	case bool:
		return t == booleanType
	case int64:
		return t == integerType || t == numberType
	case float64:
		return t == numberType || t == integerType && value == math.Trunc(value)
	case []any:
		return t == listType
	case map[string]any:
		return t == objectType
	default:
		return true
	}
}

// suggest returns the value of the JSON type that the user probably meant. If there is none, it returns a description of the type, such as
// "a whole number".
func (t jsonType) suggest(value any) string {
	written, isText := value.(string)
	switch t {
	case stringType:
		switch value.(type) {
		case bool, int64, float64:
			return strconv.Quote(match.Operand{Value: value}.String())
		}
	case integerType:
		if _, err := strconv.ParseInt(written, 10, 64); isText && err == nil {
			return written
		}
		return "a whole number"
	case numberType:
		if _, err := strconv.ParseFloat(written, 64); isText && err == nil {
			return written
		}
	case booleanType:
		if isText && (written == "true" || written == "false") {
			return written
		}
		return "true or false"
	case anyType, listType, objectType:
	}
	return string(t)
}
