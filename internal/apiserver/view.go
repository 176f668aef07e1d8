package apiserver

import (
	"mime"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A view is how a response represents objects.
type view struct {
	form
	columns []apiextensionsv1.CustomResourceColumnDefinition // of a table
}

type form int

const (
	whole form = iota
	metadataOnly
	asTable
)

// parseAccept returns the first representation in an Accept header that the server supports for a resource.
func parseAccept(accept string, r Resource) (view, error) {
	if accept == "" {
		return view{}, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil || media != "application/json" && media != "application/*" && media != "*/*" {
			continue
		}
		switch params["as"] {
		case "":
			return view{}, nil
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			return view{form: metadataOnly}, nil
		case "Table":
			if len(r.columns) > 0 {
				return view{asTable, r.columns}, nil
			}
		}
	}
	return view{}, failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: application/json, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
}

func (v view) of(obj object) object {
	switch {
	case v.form == whole || obj == nil:
		return obj
	case v.form == asTable && obj["kind"] != "Status":
		return tableOf(v.columns, obj)
	}
	return object{"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": obj["metadata"]}
}

func (v view) list(r Resource) (apiVersion, kind string) {
	if v.form == whole {
		return r.GroupVersion.String(), r.Kind + "List"
	}
	return metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
}
