package webhooks_test

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var errTest = errors.New("the database has the password 1234")

func unstructuredSet(obj *unstructured.Unstructured, value any, path ...string) {
	must(unstructured.SetNestedField(obj.Object, value, path...))
}
