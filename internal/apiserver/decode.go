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

// object decodes the body of a create or update request.
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

// checkKind returns an error if the object doesn't match the request path. Built-in objects may omit both apiVersion and kind; checkKind
// then sets them.
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
	case kind != q.Kind && isBuiltin(q.Resource): // validate checks the kind of custom objects
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", kind, gv, q.Kind))
	}
	return obj, nil
}

// checkName returns an error if an object's name or namespace doesn't match the request path. It sets a missing namespace.
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

// deleteOptions reads the delete options from the query and the body, and updates q.dryRun.
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

// ownMeta returns a copy of an object and the copy's metadata, which the caller may modify.
func ownMeta(obj object) (out, meta object) {
	meta = maps.Clone(metaOf(obj))
	if meta == nil {
		meta = object{}
	}
	return withField(obj, "metadata", meta), meta
}

func ok(value any) reply { return reply{code: http.StatusOK, value: value} }

// missingKind is what a real server answers if an object has no kind.
const missingKind = "Object 'Kind' is missing"
