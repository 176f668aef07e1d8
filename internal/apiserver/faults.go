package apiserver

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// faults are what a schema does not allow, in the words of a real server.
func faults(path *field.Path, result *validate.Result) (out field.ErrorList) {
	for _, err := range result.Errors {
		var told *openapierrors.Validation
		if !errors.As(err, &told) {
			out = append(out, field.Invalid(path, "", err.Error()))
			continue
		}
		at := path
		if name := strings.TrimPrefix(told.Name, "."); name != "" {
			at = path.Child(name)
		}
		out = append(out, fault(at, told))
	}
	return out
}

func fault(at *field.Path, told *openapierrors.Validation) *field.Error {
	value := told.Value
	if value == nil {
		value = ""
	}
	most, _ := told.Valid.(int64)
	length, _ := told.Value.(int64)
	switch told.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.EnumFailCode:
		var allowed []string
		for _, v := range told.Values {
			allowed = append(allowed, fmt.Sprint(v))
		}
		return field.NotSupported(at, told.Value, allowed)
	case openapierrors.TooLongFailCode:
		return field.TooLong(at, "", int(most))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(at, int(length), int(most))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, value, told.Error())
	default:
		return field.Invalid(at, value, told.Error())
	}
}
