package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// Add puts objects on the server as they are: with status, finalizers, and a deletion that has begun. What is not
// there gets a default: uid, resourceVersion, creationTimestamp (now), and generation (1). Fields that their kinds do not
// have are left out, as in all objects; nothing is validated but the metadata's types. Nothing is added if there is an error.
func (s *Server) Add(objs ...map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	added := map[key]object{}
	var order []key
	for _, obj := range objs {
		k, own, err := s.seed(obj)
		_, taken := s.objects[k]
		_, twice := added[k]
		switch {
		case err != nil:
			errs = append(errs, err)
		case taken || twice:
			errs = append(errs, fmt.Errorf("apiserver: there is a %s %s already", own["kind"], describe(k)))
		default:
			added[k] = own
			order = append(order, k)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, k := range order {
		s.plant(k, added[k])
	}
	return nil
}

// seed checks an object that is to be added, and copies it.
func (s *Server) seed(obj map[string]any) (k key, own object, err error) {
	encoded, err := json.Marshal(obj)
	if err != nil {
		return k, nil, fmt.Errorf("apiserver: an object has no JSON form: %w", err)
	}
	if err := json.Unmarshal(encoded, &own); err != nil {
		return k, nil, fmt.Errorf("apiserver: an object has no JSON form: %w", err)
	}
	gvk := schema.FromAPIVersionAndKind(text(own, "apiVersion"), text(own, "kind"))
	r, known := s.kind(gvk)
	if !known {
		return k, nil, fmt.Errorf("apiserver: the kind %q of version %q is unknown: give it to New", gvk.Kind, gvk.GroupVersion())
	}
	meta := metaOf(own)
	k = key{r.gvr(), text(meta, "namespace"), text(meta, "name")}
	switch {
	case k.name == "":
		return k, nil, fmt.Errorf("apiserver: a %s has no name", gvk.Kind)
	case r.OfCluster && k.namespace != "":
		return k, nil, fmt.Errorf("apiserver: %s %s has a namespace, but its kind is of the cluster", gvk.Kind, describe(k))
	case !r.OfCluster && k.namespace == "":
		return k, nil, fmt.Errorf("apiserver: %s %s has no namespace", gvk.Kind, describe(k))
	}
	if version := text(meta, "resourceVersion"); version != "" {
		if n, err := strconv.ParseInt(version, 10, 64); err != nil || n < 1 {
			return k, nil, fmt.Errorf("apiserver: the resourceVersion %q of %s %s is no number above 0", version, gvk.Kind, describe(k))
		}
	}
	if own, err = s.canonical(r, own); err != nil {
		return k, nil, fmt.Errorf("apiserver: %s %s: %w", gvk.Kind, describe(k), err)
	}
	return k, own, nil
}

// plant stores an object, with what it lacks. Its version may be its own.
func (s *Server) plant(k key, obj object) {
	meta := metaOf(obj)
	defaults := object{"uid": s.uid(), "creationTimestamp": now(), "resourceVersion": strconv.FormatInt(s.version+1, 10)}
	if r, _ := s.resource(k.gvr.GroupVersion(), k.gvr.Resource); hasGeneration(r) {
		defaults["generation"] = int64(1)
	}
	if meta["deletionTimestamp"] != nil {
		defaults["deletionGracePeriodSeconds"] = int64(0)
	}
	for field, value := range defaults {
		if meta[field] == nil {
			meta[field] = value
		}
	}
	if own, err := strconv.ParseInt(text(meta, "resourceVersion"), 10, 64); err == nil {
		s.version = max(s.version+1, own)
	}
	s.objects[k] = obj
	s.tell(event{"ADDED", k, s.version, obj, nil})
}

func describe(k key) string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// Objects are copies of all objects of one kind, by namespaces and names.
func (s *Server) Objects(gvk schema.GroupVersionKind) []map[string]any {
	return slices.DeleteFunc(s.All(), func(obj map[string]any) bool {
		return text(obj, "apiVersion") != gvk.GroupVersion().String() || text(obj, "kind") != gvk.Kind
	})
}

// All are copies of all objects, by versions, kinds, namespaces and names.
func (s *Server) All() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []map[string]any
	for _, obj := range s.objects {
		out = append(out, runtime.DeepCopyJSON(obj))
	}
	slices.SortFunc(out, func(a, b map[string]any) int {
		m, n := metaOf(a), metaOf(b)
		return cmp.Or(
			cmp.Compare(text(a, "apiVersion"), text(b, "apiVersion")), cmp.Compare(text(a, "kind"), text(b, "kind")),
			cmp.Compare(text(m, "namespace"), text(n, "namespace")), cmp.Compare(text(m, "name"), text(n, "name")))
	})
	return out
}
