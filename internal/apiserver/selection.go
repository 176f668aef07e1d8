package apiserver

import (
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
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

// eventFields are the fields that a field selector can additionally use for Events of the core group, with their paths in the object.
var eventFields = map[string][]string{
	"involvedObject.kind": {"involvedObject", "kind"}, "involvedObject.namespace": {"involvedObject", "namespace"},
	"involvedObject.name": {"involvedObject", "name"}, "involvedObject.uid": {"involvedObject", "uid"},
	"reason": {"reason"}, "reportingComponent": {"reportingComponent"}, "type": {"type"},
}

func parseSelection(query url.Values, r Resource) (out selection, err error) {
	if out.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return out, apierrors.NewBadRequest("unable to parse requirement: " + err.Error())
	}
	if out.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	isEvent := r.gvk() == corev1.SchemeGroupVersion.WithKind("Event")
	for _, r := range out.fields.Requirements() {
		if isEvent && eventFields[r.Field] != nil {
			continue
		}
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return out, apierrors.NewBadRequest(fmt.Sprintf(
				"%q is not a known field selector: only %q, %q", r.Field, "metadata.name", "metadata.namespace"))
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
	values := fields.Set{"metadata.name": text(meta, "name"), "metadata.namespace": text(meta, "namespace")}
	for _, r := range s.fields.Requirements() {
		if place := eventFields[r.Field]; place != nil {
			values[r.Field], _, _ = unstructured.NestedString(obj, place...)
		}
	}
	return s.labels.Matches(set) && s.fields.Matches(values)
}
