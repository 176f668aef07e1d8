package apiserver

import (
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A view is the form in which a response represents objects.
type view int

const (
	whole view = iota
	metadataOnly
)

// parseAccept returns the first representation in an Accept header that the server supports.
func parseAccept(accept string) (view, error) {
	if accept == "" {
		return whole, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil || media != "application/json" && media != "application/*" && media != "*/*" {
			continue
		}
		switch params["as"] {
		case "":
			return whole, nil
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			return metadataOnly, nil
		}
	}
	return whole, failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: application/json, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
}

func (v view) of(obj object) object {
	if v == whole || obj == nil {
		return obj
	}
	return object{"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": obj["metadata"]}
}

func (v view) list(r Resource) (apiVersion, kind string) {
	if v == whole {
		return r.GroupVersion.String(), r.Kind + "List"
	}
	return metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
}
