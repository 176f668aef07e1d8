package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Vanish removes an object without a deletion timestamp, although finalizers hold it. A real server does so when a deletion
// crosses the write of the first finalizer: it accepts the finalizer and then completes the deletion.
func (s *Server) Vanish(gvk schema.GroupVersionKind, name types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.kind(gvk)
	if !known {
		return fmt.Errorf("apiserver: the kind %q of version %q is unknown: pass it to New", gvk.Kind, gvk.GroupVersion())
	}
	k := key{r.gvr(), name.Namespace, name.Name}
	if _, exists := s.objects[k]; !exists {
		return fmt.Errorf("apiserver: no %s %s", gvk.Kind, describe(k))
	}
	s.drop(k)
	return nil
}
