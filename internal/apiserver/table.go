package apiserver

import (
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// tableOf returns the table that kubectl shows for objects of a custom kind with additionalPrinterColumns.
func tableOf(columns []apiextensionsv1.CustomResourceColumnDefinition, objs ...object) object {
	definitions := []any{object{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}}
	for _, c := range columns {
		definitions = append(definitions, object{
			"name": c.Name, "type": c.Type, "format": c.Format, "description": c.Description, "priority": c.Priority,
		})
	}
	rows := []any{}
	for _, obj := range objs {
		cells := []any{text(metaOf(obj), "name")}
		for _, c := range columns {
			cells = append(cells, cell(c, obj))
		}
		rows = append(rows, object{"cells": cells, "object": view{form: metadataOnly}.of(obj)})
	}
	return object{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "Table", "metadata": object{},
		"columnDefinitions": definitions, "rows": rows,
	}
}

// cell returns the value of a column, or nil if the object doesn't have one.
func cell(c apiextensionsv1.CustomResourceColumnDefinition, obj object) any {
	path := jsonpath.New(c.Name).AllowMissingKeys(true)
	if err := path.Parse("{" + c.JSONPath + "}"); err != nil {
		return nil
	}
	found, err := path.FindResults(obj)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	switch c.Type {
	case "date":
		at, err := time.Parse(time.RFC3339, fmt.Sprint(value))
		if err != nil {
			return "<invalid>"
		}
		return duration.HumanDuration(time.Since(at))
	case "string":
		if value != nil {
			return fmt.Sprint(value)
		}
	}
	return value
}
