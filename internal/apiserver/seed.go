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

// Add stores objects with their status and deletion timestamps, which a create request would drop. It sets missing metadata: uid,
// resourceVersion, creationTimestamp (now), generation (1, if the kind has generations), and deletionGracePeriodSeconds (0) for an object
// that is being deleted. It drops unknown fields and sets the defaults of CRDs. Add checks the kind, the scope, the name, the
// resourceVersion, the types of the metadata, and for built-in kinds the types of all fields. It doesn't validate objects against the
// schemas of CRDs.
//
// The error has one line for each invalid object. If Add returns an error, it hasn't added any object.
func (s *Server) Add(objs ...map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	added := map[key]object{}
	var order []key
	for _, obj := range objs {
		k, own, err := s.checkSeed(obj)
		_, taken := s.objects[k]
		_, twice := added[k]
		switch {
		case err != nil:
			errs = append(errs, err)
		case taken || twice:
			errs = append(errs, fmt.Errorf("apiserver: %s %s exists already", own["kind"], formatKey(k)))
		default:
			added[k] = own
			order = append(order, k)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, k := range order {
		s.storeSeed(k, added[k])
	}
	return nil
}

// checkSeed checks and copies an object for Add.
func (s *Server) checkSeed(obj map[string]any) (k key, own object, err error) {
	encoded, err := json.Marshal(obj)
	if err != nil {
		return k, nil, fmt.Errorf("apiserver: encode the object: %w", err)
	}
	if err := json.Unmarshal(encoded, &own); err != nil {
		return k, nil, fmt.Errorf("apiserver: decode the object: %w", err)
	}
	gvk := schema.FromAPIVersionAndKind(text(own, "apiVersion"), text(own, "kind"))
	r, known := s.resourceOfKind(gvk)
	if !known {
		return k, nil, fmt.Errorf("apiserver: unknown kind %q of version %q: pass its resource to New", gvk.Kind, gvk.GroupVersion())
	}
	meta := metaOf(own)
	k = key{r.gvr(), text(meta, "namespace"), text(meta, "name")}
	switch {
	case k.name == "":
		return k, nil, fmt.Errorf("apiserver: a %s has no name", gvk.Kind)
	case r.ClusterScoped && k.namespace != "":
		return k, nil, fmt.Errorf("apiserver: %s %s has a namespace, but its kind is cluster-scoped", gvk.Kind, formatKey(k))
	case !r.ClusterScoped && k.namespace == "":
		return k, nil, fmt.Errorf("apiserver: %s %s has no namespace", gvk.Kind, formatKey(k))
	}
	if version := text(meta, "resourceVersion"); version != "" {
		if n, err := strconv.ParseInt(version, 10, 64); err != nil || n < 1 {
			return k, nil, fmt.Errorf("apiserver: the resourceVersion %q of %s %s must be a number above 0", version, gvk.Kind, formatKey(k))
		}
	}
	if own, err = s.normalize(r, own); err != nil {
		return k, nil, fmt.Errorf("apiserver: %s %s: %w", gvk.Kind, formatKey(k), err)
	}
	return k, own, nil
}

// storeSeed stores an object and sets its missing metadata. It keeps the resourceVersion if the object has one.
func (s *Server) storeSeed(k key, obj object) {
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
	s.appendEvent(event{"ADDED", k, s.version, obj, nil})
}

func formatKey(k key) string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// Objects returns copies of all objects of a kind, sorted by namespace and name.
func (s *Server) Objects(gvk schema.GroupVersionKind) []map[string]any {
	return slices.DeleteFunc(s.All(), func(obj map[string]any) bool {
		return text(obj, "apiVersion") != gvk.GroupVersion().String() || text(obj, "kind") != gvk.Kind
	})
}

// All returns copies of all objects, sorted by version, kind, namespace and name.
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
