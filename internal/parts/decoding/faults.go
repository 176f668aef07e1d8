package decoding

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// An Object is a stored object that doesn't decode into its Go type.
type Object struct {
	GVK             schema.GroupVersionKind
	Key             types.NamespacedName
	UID             types.UID
	ResourceVersion string
	Fault           *Fault
}

// Name returns the namespace and the name, or just the name if there is no namespace.
func (o Object) Name() string {
	if o.Key.Namespace == "" {
		return o.Key.Name
	}
	return o.Key.String()
}

// Error implements error.
func (o Object) Error() string { return fmt.Sprintf("%s %s: %v", o.GVK.Kind, o.Name(), o.Fault) }

// Metadata returns a metadata-only object with the object's identity.
func (o Object) Metadata() *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Key.Namespace, Name: o.Key.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}}
	obj.SetGroupVersionKind(o.GVK)
	return obj
}

// Faults is the set of objects that caches leave out because they don't decode. It is safe for concurrent use.
type Faults struct {
	mu      sync.Mutex
	objects map[*listWatch]map[types.NamespacedName]Object // by the list and watch that found them
	changed chan struct{}
}

// NewFaults returns an empty set.
func NewFaults() *Faults {
	return &Faults{objects: map[*listWatch]map[types.NamespacedName]Object{}, changed: make(chan struct{})}
}

// All returns the objects, sorted by kind, namespace and name, and a channel that is closed at the next change.
func (f *Faults) All() (all []Object, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, objects := range f.objects {
		for _, obj := range objects {
			all = append(all, obj)
		}
	}
	slices.SortFunc(all, compare)
	return all, f.changed
}

func compare(a, b Object) int {
	return cmp.Or(cmp.Compare(a.GVK.String(), b.GVK.String()), cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}

// Find returns the faulty object with this kind and key, if there is one.
func (f *Faults) Find(kind schema.GroupKind, key types.NamespacedName) (obj Object, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, objects := range f.objects {
		if obj, found = objects[key]; found && obj.GVK.GroupKind() == kind {
			return obj, true
		}
	}
	return Object{}, false
}

// set replaces the objects of a list and watch. It keeps the map, so the caller must not change it any more.
func (f *Faults) set(of *listWatch, objects map[types.NamespacedName]Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(objects) == 0 && len(f.objects[of]) == 0 {
		return
	}
	if f.objects[of] = objects; len(objects) == 0 {
		delete(f.objects, of)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}
