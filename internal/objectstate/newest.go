package objectstate

import (
	"bytes"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Newest returns the newest known state of an object: what was observed last, or what a write of ours has made
// of it since. nil if it is gone, or was never seen. It is shared, and must not be changed.
func (i *Inventory) Newest(uid types.UID) client.Object {
	i.mu.Lock()
	defer i.mu.Unlock()
	if memory, known := i.memories[uid]; known {
		return memory.newest
	}
	return nil
}

// All returns the newest known states of all objects.
func (i *Inventory) All() []client.Object {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := make([]client.Object, 0, len(i.memories))
	for _, memory := range i.memories {
		if memory.newest != nil {
			all = append(all, memory.newest)
		}
	}
	return all
}

// Learn takes note of a state of an object that is known to exist.
func (i *Inventory) Learn(obj client.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if memory, known := i.memories[obj.GetUID()]; known && memory.newest != nil {
		i.learn(memory, obj)
	}
}

// CatchUp learns of a state that was read from the cache, which has objects a moment before it tells of them. Whoever is woken because of that
// state is not to find an older one.
func (i *Inventory) CatchUp(obj client.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	memory, known := i.memories[obj.GetUID()]
	if !known || memory.newest == nil {
		return
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), memory.newest.GetResourceVersion())
	if err == nil && order > 0 {
		i.learn(memory, obj)
	}
}

// learn also takes note that the object has another baseline than before.
func (i *Inventory) learn(memory *Memory, obj client.Object) {
	before := memory.newest
	memory.learn(obj)
	if i.wants.Baseline == nil || before == nil || memory.newest != obj || memory.replaced != nil ||
		maps.Equal(before.GetAnnotations(), obj.GetAnnotations()) {
		return
	}
	was, is := i.wants.Baseline(before), i.wants.Baseline(obj)
	if was != nil && is != nil && !bytes.Equal(was, is) {
		memory.replaced = was
	}
}

// Replaced returns the baseline that an object had before another one was put there, which may have been done by ourselves; nil if there was none
// since [Inventory.Approve].
func (i *Inventory) Replaced(uid types.UID) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	if memory, known := i.memories[uid]; known {
		return memory.replaced
	}
	return nil
}

// Approve says which baseline of an object is right, which was just written. It may have been replaced by now.
func (i *Inventory) Approve(uid types.UID, baseline []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	memory, known := i.memories[uid]
	if !known || i.wants.Baseline == nil {
		return
	}
	memory.replaced = nil
	if memory.newest == nil {
		return
	}
	if is := i.wants.Baseline(memory.newest); is != nil && !bytes.Equal(is, baseline) {
		memory.replaced = baseline
	}
}

// learn keeps a state unless a newer one is known. Of the same one it keeps the last copy, which is that of the
// cache: it need not be kept twice.
func (m *Memory) learn(obj client.Object) {
	if m.newest != nil {
		order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), m.newest.GetResourceVersion())
		if err == nil && order < 0 {
			return
		}
	}
	m.newest = obj
}

// lastKnown returns the last known state of an object whose deletion the watch has missed: the answer to one of our own writes may be
// newer than what the watch has shown.
func (i *Inventory) lastKnown(obj client.Object) client.Object {
	newest := i.Newest(obj.GetUID())
	if newest == nil {
		return obj
	}
	order, err := resourceversion.CompareResourceVersion(newest.GetResourceVersion(), obj.GetResourceVersion())
	if err != nil || order <= 0 {
		return obj
	}
	return newest
}

// OnRemoval has a function called, once, when an object is seen to be being deleted, or gone; at once if it is
// already. One function of an object at a time; it must be quick. The result ends that.
func (i *Inventory) OnRemoval(uid types.UID, call func()) (end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	memory, known := i.memories[uid]
	if !known {
		return func() {} // nobody will tell
	}
	memory.onRemoval = call
	if memory.gone || memory.newest != nil && memory.newest.GetDeletionTimestamp() != nil {
		memory.removed()
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		memory.onRemoval = nil
	}
}

func (m *Memory) removed() {
	if call := m.onRemoval; call != nil {
		m.onRemoval = nil
		call()
	}
}
