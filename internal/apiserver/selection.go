package apiserver

import (
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A selection contains the selectors of a list or a watch.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

func parseSelection(query url.Values) (out selection, err error) {
	if out.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return out, apierrors.NewBadRequest("unable to parse requirement: " + err.Error())
	}
	if out.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return out, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range out.fields.Requirements() {
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
	return s.labels.Matches(set) &&
		s.fields.Matches(fields.Set{"metadata.name": text(meta, "name"), "metadata.namespace": text(meta, "namespace")})
}
