package crdschema

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// validationErrors converts schema validation errors to those that a real server returns.
func validationErrors(path *field.Path, result *validate.Result) (out field.ErrorList) {
	for _, err := range result.Errors {
		var failure *openapierrors.Validation
		if !errors.As(err, &failure) {
			out = append(out, field.Invalid(path, "", err.Error()))
			continue
		}
		at := path
		if name := strings.TrimPrefix(failure.Name, "."); name != "" {
			at = path.Child(name)
		}
		out = append(out, validationError(at, failure))
	}
	return out
}

func validationError(at *field.Path, err *openapierrors.Validation) *field.Error {
	value := err.Value
	if value == nil {
		value = ""
	}
	most, _ := err.Valid.(int64)
	length, _ := err.Value.(int64)
	switch err.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.EnumFailCode:
		var allowed []string
		for _, v := range err.Values {
			allowed = append(allowed, fmt.Sprint(v))
		}
		return field.NotSupported(at, err.Value, allowed)
	case openapierrors.TooLongFailCode:
		return field.TooLong(at, "", int(most))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(at, int(length), int(most))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, value, err.Error())
	default:
		return field.Invalid(at, value, err.Error())
	}
}
