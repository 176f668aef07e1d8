package objectstate

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Memory is what one process remembers of one object. It is gone with the process, and nothing
// is lost by that.
//
// Apart from the inventory's own bookkeeping it is used by the one worker that handles the object.
type Memory struct {
	// Listed reports whether the initial list of the watch had the object.
	Listed bool
	// First is the resource version of the first state of the object that the watch has shown.
	First string
	// Handled: a cause of the object was handled to its end in this process, so it has resumed.
	Handled bool
	// Alive: the object was seen by this process before it was being deleted.
	Alive bool
	// Farewelled: the optional delete handlers were called.
	Farewelled bool
	// Released: our finalizer was taken off in this process. It is never put on again.
	Released bool
	// Verified: a state of the object that this process has seen is not older than the start of the process.
	Verified bool
	// Vanished: a write has found that the object does not exist any more.
	Vanished bool
	// Warned: it was told that the last handled essence is too large to be kept.
	Warned bool
	// Kept is a hash of what was handled last, as it was stored; 0: nothing was in this process.
	Kept uint64
	// Past are those before it, the last ones first.
	Past []uint64
	// Pauses is how many pauses there had been when it was stored: during a pause, others may have handled the object.
	Pauses int64
	// PausesSeen is how many pauses there had been when a worker last looked at the object.
	PausesSeen int64
	// Written is the version that our last write made, until it is seen; and until when to wait.
	Written  string
	Deadline time.Time
	// Settled is the version that ended a cycle and left nothing to do; empty if there is none, or if its event was skipped.
	Settled string
	// Own are the versions that our writes have made, until they are seen.
	Own []string
	// Unwritten is work whose write has failed: to be written before anything else is decided.
	Unwritten any
	// Overlay is the part of the framework that the API server has rejected; nil: none.
	Overlay *Overlay
	// Levels is what is known of the level-triggered handlers of the object, by their ids.
	Levels map[string]any
	// ClientWrites is what handlers write with their clients.
	ClientWrites any
	// Memos are what handlers remember of the object.
	Memos *Memos
	// Background is what is known of the daemons and timers of the object.
	Background any

	replaced  []byte        // the baseline that the object had before another one was put there
	gone      bool          // it was buried, and has not come back
	newest    client.Object // the newest known state; nil after it is gone
	onRemoval func()        // called when the object is being deleted, or is gone
}

// Await has the object wait until a version, if any is named, is seen; for no longer than that.
func (m *Memory) Await(version string, atMost time.Duration) {
	m.Deadline = time.Now().Add(atMost)
	if version != "" {
		m.Written = version
	}
}

// An Inventory keeps the memories of the objects of one kind, bound to their uids: an object that
// is created again under an old name is another object. What has still to be looked at is noted by name.
type Inventory struct {
	mu       sync.Mutex
	memories map[types.UID]*Memory
	buried   map[types.NamespacedName][]client.Object
	waiting  map[types.NamespacedName]time.Time // since when
	stirred  map[types.NamespacedName][]string  // by which versions
	sights   map[types.NamespacedName][]Sight

	wants Wants
}

// Wants are what the inventory is to take note of beyond the objects themselves.
type Wants struct {
	// Sights: every observed state, for [Inventory.Sights].
	Sights bool
	// Stirs: what has changed objects, for [Inventory.Stirred].
	Stirs bool
	// Baseline finds the baseline of an object, for [Inventory.Replaced]; nil: it is not wanted.
	Baseline func(client.Object) []byte
}

// New returns an empty inventory.
func New(wants Wants) *Inventory {
	return &Inventory{
		wants:    wants,
		memories: map[types.UID]*Memory{},
		buried:   map[types.NamespacedName][]client.Object{},
		waiting:  map[types.NamespacedName]time.Time{},
		stirred:  map[types.NamespacedName][]string{},
		sights:   map[types.NamespacedName][]Sight{},
	}
}

// Observe takes note of an object that exists; listed: it is part of the listing at the start.
func (i *Inventory) Observe(obj client.Object, listed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	memory, known := i.memories[obj.GetUID()]
	if !known {
		memory = &Memory{Listed: listed, First: obj.GetResourceVersion()}
		i.memories[obj.GetUID()] = memory
	}
	i.learn(memory, obj)
	i.unbury(obj)
	if obj.GetDeletionTimestamp() != nil {
		memory.removed()
	}
	i.stir(client.ObjectKeyFromObject(obj), obj.GetResourceVersion())
}

// Bury takes note of an object that exists no more, with its last known state.
func (i *Inventory) Bury(obj client.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if memory, known := i.memories[obj.GetUID()]; known {
		key := client.ObjectKeyFromObject(obj)
		i.buried[key] = append(i.buried[key], obj)
		delete(i.stirred, key) // whoever comes after it is new
		memory.newest, memory.gone = nil, true
		memory.removed()
	}
}

// unbury is for an object that was only out of sight.
func (i *Inventory) unbury(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	others := slices.DeleteFunc(i.buried[key], func(other client.Object) bool { return other.GetUID() == obj.GetUID() })
	if i.buried[key] = others; len(others) == 0 {
		delete(i.buried, key)
	}
	i.memories[obj.GetUID()].gone = false
}

// Exhume hands out the objects that were buried under a name, once.
func (i *Inventory) Exhume(key types.NamespacedName) []client.Object {
	i.mu.Lock()
	defer i.mu.Unlock()
	buried := i.buried[key]
	delete(i.buried, key)
	return buried
}

// Recall returns the memory of an object, a new one if there is none.
func (i *Inventory) Recall(uid types.UID) *Memory {
	i.mu.Lock()
	defer i.mu.Unlock()
	memory, known := i.memories[uid]
	if !known {
		memory = &Memory{}
		i.memories[uid] = memory
	}
	return memory
}

// Forget drops the memory of an object.
func (i *Inventory) Forget(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.memories, uid)
}

// Len counts the objects that are remembered.
func (i *Inventory) Len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.memories)
}
