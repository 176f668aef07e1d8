package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// object reads the object in the body of a create or update request.
func (q *request) object() (object, error) {
	obj := object{}
	switch q.media {
	case "", runtime.ContentTypeJSON:
		if err := json.Unmarshal(q.body, &obj); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case runtime.ContentTypeYAML:
		var err error
		if obj, err = fromYAML(q.body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case runtime.ContentTypeProtobuf:
		if !isBuiltin(q.Resource) {
			return nil, unsupportedMediaType(q.media, runtime.ContentTypeJSON, runtime.ContentTypeYAML)
		}
		var err error
		if obj, err = fromProtobuf(q.body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, unsupportedMediaType(q.media, runtime.ContentTypeJSON, runtime.ContentTypeYAML)
	}
	return q.checkKind(obj)
}

// checkKind sets the apiVersion and kind of a built-in object that has neither. It returns an error if the object does not match the request path.
func (q *request) checkKind(obj object) (object, error) {
	if isBuiltin(q.Resource) && obj["apiVersion"] == nil && obj["kind"] == nil {
		obj["apiVersion"], obj["kind"] = q.GroupVersion.String(), q.Kind
	}
	gv, kind := text(obj, "apiVersion"), text(obj, "kind")
	switch {
	case kind == "":
		return nil, apierrors.NewBadRequest(missingKind)
	case gv != q.GroupVersion.String():
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", gv, q.GroupVersion))
	case kind != q.Kind && isBuiltin(q.Resource): // for custom kinds, validate checks the kind
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", kind, gv, q.Kind))
	}
	return obj, nil
}

// checkName returns an error if the name or the namespace of an object does not match the path of the request. It sets a missing namespace.
func (q *request) checkName(meta object) error {
	switch namespace := text(meta, "namespace"); {
	case q.ClusterScoped, namespace == "", namespace == q.namespace:
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	setField(meta, "namespace", q.namespace)
	if q.namespace == "" {
		delete(meta, "namespace")
	}
	if name := text(meta, "name"); q.name != "" && name != q.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, q.name))
	}
	return nil
}

// deleteOptions reads the options of a deletion from the query and the body, and updates q.dryRun.
func (q *request) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{DryRun: q.query["dryRun"]}
	if policy := metav1.DeletionPropagation(q.query.Get("propagationPolicy")); policy != "" {
		options.PropagationPolicy = &policy
	}
	switch {
	case len(q.body) == 0:
	case q.media == runtime.ContentTypeProtobuf:
		if _, _, err := codecs().UniversalDeserializer().Decode(q.body, nil, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case slices.Contains([]string{"", runtime.ContentTypeJSON, runtime.ContentTypeYAML}, q.media):
		if err := yaml.Unmarshal(q.body, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, unsupportedMediaType(q.media, runtime.ContentTypeJSON, runtime.ContentTypeYAML)
	}
	if errs := validation.ValidateDeleteOptions(options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	q.dryRun = q.dryRun || len(options.DryRun) > 0
	return options, nil
}

func fromYAML(body []byte) (object, error) {
	text, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, err
	}
	obj := object{}
	return obj, json.Unmarshal(text, &obj)
}

func fromProtobuf(body []byte) (object, error) {
	obj, gvk, err := codecs().UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = gvk.GroupVersion().String(), gvk.Kind
	return out, nil
}

// ownMeta returns a copy of an object, and the metadata of the copy. The caller may modify the metadata.
func ownMeta(obj object) (out, meta object) {
	meta = maps.Clone(metaOf(obj))
	if meta == nil {
		meta = object{}
	}
	return withField(obj, "metadata", meta), meta
}

func ok(value any) reply { return reply{code: http.StatusOK, value: value} }

// missingKind is the message of a real server for an object without a kind.
const missingKind = "Object 'Kind' is missing"
