package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

func (s *Server) list(t target) answer {
	items := []any{}
	for _, obj := range s.present(t) {
		items = append(items, obj)
	}
	return answer{http.StatusOK, object{
		"apiVersion": s.group.String(), "kind": t.Kind + "List",
		"metadata": object{"resourceVersion": strconv.FormatInt(s.version, 10)}, "items": items,
	}, nil}
}

// present are the objects of a namespace, or of all, by their names.
func (s *Server) present(t target) []object {
	var keys []key
	for k := range s.objects {
		if t.covers(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.namespace+"/"+a.name < b.namespace+"/"+b.name {
			return -1
		}
		return 1
	})
	var out []object
	for _, k := range keys {
		out = append(out, s.objects[k])
	}
	return out
}

func (t target) covers(k key) bool {
	return k.plural == t.Plural && (t.namespace == "" || k.namespace == t.namespace)
}

func (s *Server) get(t target) answer {
	obj, ok := s.objects[t.key()]
	if !ok {
		return notFound(t.Plural + " " + t.name)
	}
	return answer{http.StatusOK, obj, nil}
}

func (s *Server) create(r *http.Request, t target) answer {
	obj, err := body(r)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	meta := nested(obj, "metadata")
	t.name, _ = meta["name"].(string)
	if _, taken := s.objects[t.key()]; taken {
		return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, t.Plural+" "+t.name+" already exists")
	}
	if t.HasStatus {
		delete(obj, "status")
	}
	delete(meta, "deletionTimestamp")
	meta["namespace"], meta["generation"] = t.namespace, int64(1)
	meta["uid"] = fmt.Sprintf("00000000-0000-0000-0000-%012d", s.version)
	meta["creationTimestamp"] = now()
	return answer{http.StatusCreated, s.put("ADDED", t.key(), tidied(obj)), nil}
}

func (s *Server) update(r *http.Request, t target) answer {
	before, ok := s.objects[t.key()]
	if !ok {
		return notFound(t.Plural + " " + t.name)
	}
	obj, err := body(r)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	return s.write(t, before, obj)
}

func (s *Server) patch(r *http.Request, t target) answer {
	before, ok := s.objects[t.key()]
	if !ok {
		return notFound(t.Plural + " " + t.name)
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/merge-patch+json" {
		return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, kind+" is not supported")
	}
	change, err := body(r)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	return s.write(t, before, merged(runtime.DeepCopyJSON(before), change))
}

func (s *Server) remove(r *http.Request, t target) answer {
	before, ok := s.objects[t.key()]
	if !ok {
		return notFound(t.Plural + " " + t.name)
	}
	options, err := body(r)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	meta := nested(before, "metadata")
	wanted := nested(options, "preconditions")
	if uid := wanted["uid"]; uid != nil && uid != meta["uid"] {
		return conflict("the UID in the precondition differs from that of the object")
	}
	after := runtime.DeepCopyJSON(before)
	if len(finalizers(before)) == 0 {
		return answer{http.StatusOK, s.put("DELETED", t.key(), after), nil}
	}
	if meta["deletionTimestamp"] != nil {
		return answer{http.StatusOK, before, nil}
	}
	meta = nested(after, "metadata")
	meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = now(), int64(0)
	return answer{http.StatusOK, s.put("MODIFIED", t.key(), after), nil}
}

// write replaces an object, as far as the preconditions hold and the subresource goes.
func (s *Server) write(t target, before, wanted object) answer {
	was, meta := nested(before, "metadata"), nested(wanted, "metadata")
	if version := meta["resourceVersion"]; version != nil && version != "" && version != was["resourceVersion"] {
		return conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := meta["uid"]; t.subresource == "" && uid != nil && uid != "" && uid != was["uid"] {
		return immutable("metadata.uid")
	}
	after := runtime.DeepCopyJSON(wanted)
	if t.subresource == "status" {
		after = runtime.DeepCopyJSON(before)
		replace(after, "status", wanted["status"])
	} else if t.HasStatus {
		replace(after, "status", before["status"])
	}
	meta = nested(after, "metadata")
	for _, field := range []string{
		"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	} {
		replace(meta, field, was[field])
	}
	after["apiVersion"], after["kind"] = before["apiVersion"], before["kind"]
	after = tidied(after)
	switch {
	case was["deletionTimestamp"] != nil && len(finalizers(after)) == 0:
		answered := runtime.DeepCopyJSON(after) // with the version that it had
		s.put("DELETED", t.key(), after)
		return answer{http.StatusOK, answered, nil}
	case reflect.DeepEqual(before, after):
		return answer{http.StatusOK, before, nil}
	}
	if !reflect.DeepEqual(before["spec"], after["spec"]) {
		generation, _ := was["generation"].(int64)
		nested(after, "metadata")["generation"] = generation + 1
	}
	return answer{http.StatusOK, s.put("MODIFIED", t.key(), after), nil}
}

// body reads the JSON of a request; no body is an empty object.
func body(r *http.Request) (object, error) {
	if r.Body == nil {
		return object{}, nil
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || len(text) == 0 {
		return object{}, err
	}
	out := object{}
	return out, json.Unmarshal(text, &out)
}

// merged applies a JSON merge patch; the object is changed.
func merged(obj, change object) object {
	for field, value := range change {
		switch inner, isObject := value.(object); {
		case value == nil:
			delete(obj, field)
		case isObject:
			into, ok := obj[field].(object)
			if !ok {
				into = object{}
			}
			obj[field] = merged(into, inner)
		default:
			obj[field] = value
		}
	}
	return obj
}

// tidied leaves out of the metadata what is empty, as Go types with omitempty do.
func tidied(obj object) object {
	meta := nested(obj, "metadata")
	for field, value := range meta {
		switch v := value.(type) {
		case nil:
			delete(meta, field)
		case object:
			if len(v) == 0 {
				delete(meta, field)
			}
		case []any:
			if len(v) == 0 {
				delete(meta, field)
			}
		}
	}
	obj["metadata"] = meta
	return obj
}

func replace(obj object, field string, value any) {
	if value == nil {
		delete(obj, field)
		return
	}
	obj[field] = value
}

func finalizers(obj object) []any {
	list, _ := nested(obj, "metadata")["finalizers"].([]any)
	return list
}

// nested is an object within an object; a new one, outside of it, if there is none.
func nested(obj object, field string) object {
	if inner, ok := obj[field].(object); ok {
		return inner
	}
	return object{}
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
