package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// RemoveDespiteFinalizers removes an object that has finalizers but no deletion timestamp. This can happen on a real server if a deletion and the write
// of the first finalizer are concurrent. The server accepts the finalizer and then completes the deletion.
func (s *Server) RemoveDespiteFinalizers(gvk schema.GroupVersionKind, name types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.resourceOfKind(gvk)
	if !known {
		return fmt.Errorf("apiserver: unknown kind %q of version %q: pass its resource to New", gvk.Kind, gvk.GroupVersion())
	}
	k := key{r.gvr(), name.Namespace, name.Name}
	if _, exists := s.objects[k]; !exists {
		return fmt.Errorf("apiserver: no %s %s", gvk.Kind, formatKey(k))
	}
	s.removeStored(k)
	return nil
}
