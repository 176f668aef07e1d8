package shards

import "sigs.k8s.io/controller-runtime/pkg/client"

// A Shard selects the objects that one of several processes handles. The informers of the kind must deliver only objects with the label.
//
// When an object gets the drain label, the engine ends the work for it, forgets it, and removes both labels. Another process may then handle the object. If an object
// appears in the shard and was handled before, the engine calls its resume handlers.
type Shard struct {
	Label, Name string // the label of the objects of the process, and its value
	Drain       string // the label of objects that the process must release
}

// Leaves reports whether the process must not begin any work for an object.
func (s *Shard) Leaves(obj client.Object) bool {
	if s == nil {
		return false
	}
	_, drained := obj.GetLabels()[s.Drain]
	return drained || obj.GetLabels()[s.Label] != s.Name
}
