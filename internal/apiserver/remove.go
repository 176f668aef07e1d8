package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// RemoveDespiteFinalizers removes an object, even if it has finalizers and no deletion timestamp. On a real server, this can happen if one
// client deletes an object while another client writes its first finalizer: the server accepts the finalizer, but still completes the
// deletion.
//
// It returns an error if the kind is unknown or the object doesn't exist.
func (s *Server) RemoveDespiteFinalizers(gvk schema.GroupVersionKind, name types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.resourceOfKind(gvk)
	if !known {
		return fmt.Errorf("apiserver: unknown kind %q of version %q: pass its resource to New", gvk.Kind, gvk.GroupVersion())
	}
	k := key{r.gvr(), name.Namespace, name.Name}
	if _, exists := s.objects[k]; !exists {
		return fmt.Errorf("apiserver: %s %s does not exist", gvk.Kind, formatKey(k))
	}
	s.removeStored(k)
	return nil
}
