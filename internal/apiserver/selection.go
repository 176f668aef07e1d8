package apiserver

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A selection holds the selectors of a list or a watch.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

// builtinFields are the fields of built-in kinds that field selectors can use, in addition to the name and namespace.
var builtinFields = map[string][]string{
	"events": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.fieldPath", "involvedObject.resourceVersion", "reason", "reportingComponent", "type",
	},
	"events.events.k8s.io": {
		"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.fieldPath",
		"regarding.resourceVersion", "reason", "reportingController", "type",
	},
	"pods": {
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase",
		"status.podIP", "status.nominatedNodeName",
	},
	"namespaces": {"status.phase"}, "nodes": {"spec.unschedulable"}, "secrets": {"type"},
}

func parseSelection(query url.Values, r Resource) (out selection, err error) {
	if out.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return out, apierrors.NewBadRequest("unable to parse requirement: " + err.Error())
	}
	if out.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	selectable := append([]string{"metadata.name", "metadata.namespace"}, r.selectable...)
	if isBuiltin(r) {
		selectable = append(selectable, builtinFields[r.gr().String()]...)
	}
	for _, r := range out.fields.Requirements() {
		if !slices.Contains(selectable, r.Field) {
			return out, apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only %s", r.Field, quoted(selectable)))
		}
	}
	return out, nil
}

func (s selection) matches(obj object) bool {
	meta := metaOf(obj)
	set := labels.Set{}
	stored, _ := meta["labels"].(object)
	for name := range stored {
		set[name] = text(stored, name)
	}
	values := fields.Set{}
	for _, r := range s.fields.Requirements() {
		if value, _, _ := unstructured.NestedFieldNoCopy(obj, strings.Split(r.Field, ".")...); value != nil {
			values[r.Field] = fmt.Sprint(value)
		}
	}
	return s.labels.Matches(set) && s.fields.Matches(values)
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strconv.Quote(name)
	}
	return strings.Join(out, ", ")
}
