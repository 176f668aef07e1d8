package shards

import "sigs.k8s.io/controller-runtime/pkg/client"

// A Shard selects the objects of one of several processes. The kind's informers must deliver only objects with the label.
//
// When an object gets the drain label, the engine finishes its work on it, forgets it and removes both labels, so that a different process
// can take over. When an object appears in the shard that was handled before, the engine calls its resume handlers.
type Shard struct {
	Label, Name string // the label of this process's objects, and its value
	Drain       string // the label of objects that this process must release
}

// Leaves reports whether the process must not start any work for an object.
func (s *Shard) Leaves(obj client.Object) bool {
	if s == nil {
		return false
	}
	_, drained := obj.GetLabels()[s.Drain]
	return drained || obj.GetLabels()[s.Label] != s.Name
}
