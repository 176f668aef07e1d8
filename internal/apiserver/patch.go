package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (s *Server) patch(q *request) (reply, error) {
	known := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType}
	if isBuiltin(q.Resource) {
		known = append(known, types.StrategicMergePatchType)
	}
	form := types.PatchType(q.media)
	if !slices.Contains(known, form) {
		var names []string
		for _, k := range known {
			names = append(names, string(k))
		}
		return reply{}, unsupportedMediaType(q.media, names...)
	}
	if form == types.ApplyYAMLPatchType {
		return s.apply(q)
	}
	before, err := s.storedObject(q)
	if err != nil {
		return reply{}, err
	}
	wanted, err := applyPatch(q.Resource, form, runtime.DeepCopyJSON(before), q.body)
	if err != nil {
		return reply{}, err
	}
	if text(wanted, "kind") == "" {
		return reply{}, unpatchable(errors.New(missingKind)) //nolint:staticcheck // the message of a real server
	}
	if wanted, err = s.normalize(q.Resource, wanted); err != nil {
		return reply{}, unpatchable(err)
	}
	return s.write(q, before, s.trackManagers(q, before, wanted))
}

// applyPatch applies a patch and returns the result. It may modify obj.
func applyPatch(r Resource, form types.PatchType, obj object, patch []byte) (object, error) {
	if form == types.JSONPatchType {
		return applyJSONPatch(obj, patch)
	}
	change := object{}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if change == nil {
		return nil, apierrors.NewBadRequest("the patch is null")
	}
	if form == types.MergePatchType {
		return applyMergePatch(obj, change), nil
	}
	typed, err := builtins().New(r.gvk())
	if err != nil {
		return nil, err
	}
	out, err := strategicpatch.StrategicMergeMapPatch(obj, change, typed)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys):
		return nil, unprocessable(err)
	default:
		return nil, apierrors.NewBadRequest(err.Error())
	}
}

func applyJSONPatch(obj object, patch []byte) (object, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if text, err = operations.Apply(text); err != nil {
		return nil, unprocessable(err)
	}
	out := object{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, unpatchable(err)
	}
	return out, nil
}

// applyMergePatch applies a JSON merge patch to obj, which it modifies and returns.
func applyMergePatch(obj, change object) object {
	for field, value := range change {
		switch inner, isObject := value.(object); {
		case value == nil:
			delete(obj, field)
		case isObject:
			into, ok := obj[field].(object)
			if !ok {
				into = object{}
			}
			obj[field] = applyMergePatch(into, inner)
		default:
			obj[field] = value
		}
	}
	return obj
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func unpatchable(err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), nil, err.Error())})
}
